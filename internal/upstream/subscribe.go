package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// subscribeTimeout bounds how long anybody waits for a subscription, and how
	// long the server gets for the request.
	subscribeTimeout = 10 * time.Second
	// maxWants bounds the resources of one server that are subscribed to.
	maxWants = 10_000
)

// Subscribe has the server tell of updates of a resource. They come to
// [Observer.Notified] from then on, until as many calls of Unsubscribe have
// followed as calls of Subscribe that succeeded. The server is asked once,
// however many want it, and again after a reconnection; then an update is made
// up, since one may have been missed.
//
// The error is a *wire.Error, the server's own, or one of those of [Connector.Do],
// or that of ctx. For a server without the capability it is that of an unknown
// method. Nobody waits for longer than some seconds.
func (c *Connector) Subscribe(ctx context.Context, uri string) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	err := c.subscribe(bounded, uri)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if refusal, ok := err.(*wire.Error); ok {
		return refusal
	}
	reason := fmt.Sprintf("the server did not answer within %s", subscribeTimeout)
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		reason = f.Reason
	}
	since := began
	if s := c.Snapshot(); s.State != Ready {
		since = s.Since
	}
	return c.failure(reason, since, true, protocol.RetryAfterOf(err))
}

func (c *Connector) subscribe(ctx context.Context, uri string) error {
	if _, err := c.await(ctx, nil); err != nil {
		return err
	}
	w, err := c.wants.add(uri)
	if err != nil {
		return err
	}
	select {
	case <-w.settled:
		err = w.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.wants.drop(uri)
	}
	return err
}

// Unsubscribe takes one successful call of Subscribe back. When it was the last
// the server is told. It does not block.
func (c *Connector) Unsubscribe(uri string) { c.wants.drop(uri) }

// wants are the resources that somebody wants to hear of. They outlive
// conversations. The methods may be called by many goroutines at once.
type wants struct {
	// full has a token when there are wants to look at.
	full chan struct{}

	mu    sync.Mutex
	byURI map[string]*want
	dirty []string // to be looked at: the want has come or gone
}

// want is one resource that is wanted.
type want struct {
	count   int           // by how many
	settled chan struct{} // closed when the server has said whether it tells of it
	err     error         // what it said, nil for yes; set before settled is closed
}

func newWants() *wants {
	return &wants{full: make(chan struct{}, 1), byURI: make(map[string]*want)}
}

// add wants a resource once more. The error is a *CallError.
func (s *wants) add(uri string) (*want, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byURI[uri]
	if w == nil {
		if len(s.byURI) >= maxWants {
			return nil, &protocol.CallError{Reason: fmt.Sprintf("overloaded: there are subscriptions to %d resources", maxWants), RetryAfter: RetryOverloaded}
		}
		w = &want{settled: make(chan struct{})}
		s.byURI[uri] = w
		s.mark(uri)
	}
	w.count++
	return w, nil
}

// drop wants a resource once less.
func (s *wants) drop(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byURI[uri]
	if w == nil {
		return
	}
	if w.count--; w.count == 0 {
		delete(s.byURI, uri)
		s.mark(uri)
	}
}

// mark has a resource looked at. The caller holds mu.
func (s *wants) mark(uris ...string) {
	s.dirty = append(s.dirty, uris...)
	protocol.Poke(s.full)
}

// again has resources looked at once more.
func (s *wants) again(uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark(uris...)
}

// all has nothing but everything that is wanted looked at.
func (s *wants) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = s.dirty[:0]
	for uri := range s.byURI {
		s.dirty = append(s.dirty, uri)
	}
	protocol.Poke(s.full)
}

// take returns up to n resources to look at.
func (s *wants) take(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.dirty))
	out := slices.Clone(s.dirty[:n])
	if s.dirty = s.dirty[n:]; len(s.dirty) == 0 {
		s.dirty = nil
	}
	return out
}

// standing is how it stands with a want.
type standing uint8

const (
	unwanted standing = iota // nobody wants it, or those who did are being told no
	asked                    // somebody waits for the server's answer
	stands                   // the server has said yes
)

// of returns how it stands with a resource.
func (s *wants) of(uri string) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byURI[uri].standing()
}

func (w *want) standing() standing {
	if w == nil {
		return unwanted
	}
	select {
	case <-w.settled:
		if w.err != nil {
			return unwanted
		}
		return stands
	default:
		return asked
	}
}

// uris returns everything that is wanted, sorted.
func (s *wants) uris() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, 0, len(s.byURI))
	for uri, w := range s.byURI {
		if w.standing() != unwanted {
			out = append(out, uri)
		}
	}
	slices.Sort(out)
	return out
}

// settle gives those who wait for it the server's answer about a resource. It
// returns false when nobody does.
func (s *wants) settle(uri string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byURI[uri]
	if w.standing() != asked {
		return false
	}
	w.err = err
	close(w.settled)
	return true
}

// errUnsubscribable is the answer of a server to a subscription that it does not
// offer, as it would give it itself.
var errUnsubscribable = wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", wire.MethodResourcesSubscribe)

// errNoSuchResource is the answer for a resource that a modern server leaves out
// of its acknowledgement. Only clients of legacy revisions get to read it.
func errNoSuchResource(uri string) *wire.Error {
	return wire.Errorf(wire.CodeResourceNotFound, "the server does not tell of updates of this resource").
		WithData(protocol.UpdatedParams(uri))
}
