package upstream

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
)

// URL is one of several URLs of a server.
type URL struct {
	*url.URL
	Name string // for logs and reports, without secrets
}

// URLStatus is how one of several URLs of a server is at one moment.
type URLStatus struct {
	Name     string
	Sessions int    // that use it
	Reason   string // why it is avoided, "" if it is not
}

// firstTry bounds an attempt at a URL while others are left to try.
const firstTry = 10 * time.Second

// urlPool chooses among the URLs of a server. All sessions with the server share it. A
// session stays at its URL as long as its conversation lasts; each new conversation takes
// the URL with the fewest sessions that has not failed of late. A URL that failed is
// avoided for a while that grows with each failure, and then tried by one session. If all
// have failed, all are tried. The methods may be called concurrently.
type urlPool struct {
	mu  sync.Mutex
	all []*pooledURL
}

// pooledURL is one URL of a urlPool.
type pooledURL struct {
	URL
	n        int // its index
	sessions int
	pause    protocol.Backoff
	until    time.Time // avoided until then
	reason   string    // of the last failure, "" after a success
	trying   bool      // a session tries it after a failure
}

func newURLPool(urls []URL) *urlPool {
	p := &urlPool{}
	for n, u := range urls {
		p.all = append(p.all, &pooledURL{URL: u, n: n})
	}
	return p
}

// usable reports whether a URL need not be avoided. The caller holds mu.
func (u *pooledURL) usable(now time.Time) bool {
	return u.reason == "" || !now.Before(u.until) && !u.trying
}

// order returns the URLs in the order in which a new conversation should try them.
func (p *urlPool) order(now time.Time) []*pooledURL {
	p.mu.Lock()
	defer p.mu.Unlock()
	order := slices.Clone(p.all)
	rank := func(u *pooledURL) int {
		switch {
		case !u.usable(now):
			return 2
		case u.reason != "":
			return 0 // its time has come
		default:
			return 1
		}
	}
	slices.SortStableFunc(order, func(a, b *pooledURL) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if rank(a) == 2 {
			return a.until.Compare(b.until)
		}
		return a.sessions - b.sessions
	})
	return order
}

// try says that a session tries a URL.
func (p *urlPool) try(u *pooledURL) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.trying = true
}

// opened says that a conversation uses a URL, until closed or failed.
func (p *urlPool) opened(u *pooledURL) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.sessions++
	u.trying, u.reason = false, ""
}

// closed says that a conversation has ended. why is nil if the server is not the reason.
func (p *urlPool) closed(u *pooledURL, began, now time.Time, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.sessions--
	if now.Sub(began) >= protocol.SteadyAfter {
		u.pause.Reset()
	}
	if why != nil {
		u.avoid(now, why)
	}
}

// failed says that no conversation came about. It reports whether the reason is new.
func (p *urlPool) failed(u *pooledURL, now time.Time, why error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := u.reason
	u.trying = false
	u.avoid(now, why)
	return u.reason != before
}

// abandoned says that an attempt was ended for a reason of the gateway's own.
func (p *urlPool) abandoned(u *pooledURL) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.trying = false
}

// avoid has a URL avoided for a while. The caller holds mu.
func (u *pooledURL) avoid(now time.Time, why error) {
	u.reason = connector.ReasonFor(why)
	u.until = now.Add(u.pause.Next(now))
}

// othersWork has a URL avoided whose calls fail, and reports whether another one is usable.
func (p *urlPool) othersWork(u *pooledURL, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.all, func(o *pooledURL) bool { return o != u && o.usable(now) }) {
		return false
	}
	u.avoid(now, errCallsFail)
	return true
}

var errCallsFail = errors.New("its calls fail")

// status returns how the URLs are, masked by mask.
func (p *urlPool) status(mask func(string) string) []URLStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []URLStatus
	for _, u := range p.all {
		all = append(all, URLStatus{Name: u.Name, Sessions: u.sessions, Reason: plaintext.Truncate(mask(u.reason), protocol.MaxReason)})
	}
	return all
}

// urlDialer opens the conversations of one session, each at a URL that the pool chooses. It
// implements [protocol.Dialer].
type urlDialer struct {
	pool    *urlPool
	dialers []protocol.Dialer // by index of the URL
	log     *zap.Logger
	mask    func(string) string
}

// urlError says which of several URLs could not be reached.
type urlError struct {
	url URL
	err error
}

func (e *urlError) Error() string { return e.err.Error() }

func (e *urlError) Unwrap() error { return e.err }

// Dial implements [protocol.Dialer]. The error is that of the URL that was tried first.
func (d *urlDialer) Dial(ctx context.Context, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	order := d.pool.order(time.Now())
	var first error
	for i, u := range order {
		conn, h, err := d.try(ctx, u, in, i == len(order)-1)
		switch {
		case err == nil:
			return conn, h, nil
		case ctx.Err() != nil:
			return nil, protocol.Hello{}, err
		case first == nil:
			first = &urlError{u.URL, err}
		}
	}
	return nil, protocol.Hello{}, first
}

// try opens a conversation at one URL.
func (d *urlDialer) try(ctx context.Context, u *pooledURL, in protocol.NotificationSink, last bool) (protocol.Conn, protocol.Hello, error) {
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if !last {
		limit := firstTry
		if end, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(end)/2)
		}
		bounded, cancel = context.WithTimeoutCause(ctx, limit, &protocol.CallError{Reason: "the server did not introduce itself in time", NotSent: true})
	}
	defer cancel()
	d.pool.try(u)
	conn, h, err := d.dialers[u.n].Dial(bounded, in)
	if err == nil {
		d.pool.opened(u)
		return &urlConn{Conn: conn, pool: d.pool, url: u, began: time.Now()}, h, nil
	}
	if ctx.Err() == nil && bounded.Err() != nil {
		err = context.Cause(bounded)
	}
	if ctx.Err() == context.Canceled {
		d.pool.abandoned(u)
		return nil, protocol.Hello{}, err
	}
	level := zap.DebugLevel
	if d.pool.failed(u, time.Now(), err) {
		level = zap.WarnLevel // the same reason at every attempt is logged once
	}
	d.log.Log(level, "a URL of the server fails; the others are tried", zap.String("url", u.Name),
		zap.String("error", plaintext.Truncate(d.mask(err.Error()), protocol.MaxReason)))
	return nil, protocol.Hello{}, err
}

// urlConn is a conversation at one of several URLs.
type urlConn struct {
	protocol.Conn
	pool  *urlPool
	url   *pooledURL
	began time.Time
}

// Run implements [protocol.Conn].
func (c *urlConn) Run(ctx context.Context) error {
	err := c.Conn.Run(ctx)
	why := err
	if ctx.Err() != nil {
		why = nil
	}
	c.pool.closed(c.url, c.began, time.Now(), why)
	return err
}

// Traits implements [protocol.Conn].
func (c *urlConn) Traits() protocol.Traits {
	t := c.Conn.Traits()
	t.Address = &protocol.Address{N: c.url.n, Fails: func() bool { return c.pool.othersWork(c.url, time.Now()) }}
	return t
}

// URLs returns how the URLs of the server are, nil if it has only one.
func (s *Sessions) URLs() []URLStatus {
	if s.o.urls == nil {
		return nil
	}
	return s.o.urls.status(s.o.Mask)
}
