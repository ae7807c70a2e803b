package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

const (
	// errandTime bounds what the gateway does beside calls: notifications,
	// looking whether a server is there, a new session.
	errandTime = 10 * time.Second
	// byeTime bounds the end of a session: nobody waits for it for long.
	byeTime = 2 * time.Second
	// lookTries is how often a server that a connection to failed is looked for
	// before the conversation counts as over.
	lookTries = 4
)

// talk is what conversations over streamable HTTP of both eras have in common.
type talk struct {
	o       *Config
	e       *endpoint
	self    Identity
	flights *PendingCalls
	in      NotificationSink
	log     *zap.Logger
	ratelog *ratelog.Logger
	errands errands
	doubt   liveness
	hung    chan error // takes why, when the server has stopped answering
}

func newTalk(o *Config, http *HTTPOptions, p *pool, in NotificationSink) *talk {
	t := &talk{
		o:       o,
		e:       newEndpoint(p, o, http),
		self:    NewIdentity(o),
		flights: NewPendingCalls(),
		in:      in,
		log:     o.Logger,
		ratelog: ratelog.New(o.Logger),
		hung:    make(chan error, 1),
	}
	t.e.heard = &t.doubt.heard
	return t
}

// shut ends what is left of the conversation: its calls and its errands. The
// pool may be shared with another conversation that ends too.
func (t *talk) shut() {
	t.e.pool.close()
	t.errands.finish()
	t.doubt.looking.finish()
}

// appendRequest appends a JSON-RPC request to dst.
func appendRequest(dst []byte, id wire.ID, method string, params wire.Raw) []byte {
	m := wire.Message{ID: id, Method: method, Params: params}
	return m.Append(dst)
}

// final turns the error of an exchange into that of a call.
func final(err error) error {
	if r := refusalOf(err); r != nil {
		return r.final()
	}
	if errors.Is(err, errCutOff) {
		return &CallError{Reason: "the stream broke off before the server answered", ConnectionLost: true}
	}
	return err
}

// watch returns when ctx ends, with its error, or when the server cannot be
// reached any more, or has stopped answering. It looks whenever a connection has failed: many a failure
// is that of one call only. look reports whether the server is there.
func (t *talk) watch(ctx context.Context, look func(ctx context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-t.hung:
			return err
		case <-t.e.trouble:
		}
		t.o.Owner.ConnectionFailed()
		var wait backoff
		for tries := 1; ; tries++ {
			err := t.glance(ctx, look)
			if err == nil {
				break
			}
			if tries == lookTries {
				return fmt.Errorf("the server cannot be reached: %w", err)
			}
			if err := sleep(ctx, wait.next(time.Now())); err != nil {
				return err
			}
		}
		select { // the looking itself may have met trouble
		case <-t.e.trouble:
		default:
		}
	}
}

// glance calls look with a bound on its time.
func (t *talk) glance(ctx context.Context, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, errandTime)
	defer cancel()
	return look(ctx)
}

// notify posts a notification without params, beside the calls.
func (t *talk) notify(to *endpoint, header headers, method string) {
	t.errands.start(func(ctx context.Context) {
		if err := to.send(ctx, header, wire.Message{Method: method}); err != nil {
			t.log.Debug("the server did not take a notification", zap.String("method", method), zap.Error(err))
		}
	})
}

// errands are goroutines that a conversation starts beside its calls. The zero
// value is ready; its methods may be called by many goroutines at once.
type errands struct {
	mu      sync.Mutex
	over    bool
	running int
	wg      sync.WaitGroup
}

// maxErrands bounds the errands that are under way at once. A server that lets so
// many wait takes nothing in, and clients could make more and more of them.
const maxErrands = 256

// start runs f in a goroutine of its own, with a context that ends after
// errandTime, or does nothing when the conversation is over or too many are under
// way.
func (e *errands) start(f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.running >= maxErrands {
		return
	}
	e.running++
	e.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), errandTime)
		defer cancel()
		f(ctx)
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
	})
}

// finish lets no more errands start and waits for those that run. It is called
// after the connections were closed, which ends them at once.
func (e *errands) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.wg.Wait()
}

// probe implements the method of [Conn].
func (t *talk) probe(why Suspicion, look func(ctx context.Context) error) {
	if why == CallTimedOut {
		t.raise(look)
	} else {
		poke(t.e.trouble)
	}
}

// errNoListen is the answer of a conversation in an era without subscriptions/listen.
var errNoListen = &CallError{Reason: "the server's revision has no subscriptions/listen", NotSent: true}

// raise is [liveness.raise] for conversations over HTTP. The server says something when
// a message of its comes: a connection that it takes, a status before the answer, and
// the comments with which streams are kept open can be the work of a proxy, or of a
// library under a server that has got stuck.
func (t *talk) raise(look func(ctx context.Context) error) {
	t.doubt.raise(context.Background(), t.log, func(ctx context.Context) error {
		if t.e.credentials != nil {
			// They may come from elsewhere, and a server must not pay for that.
			if _, err := t.e.credentials.Headers(ctx, t.o.Owner.Principal()); err != nil {
				return nil
			}
		}
		return look(ctx)
	}, func(why error) {
		select {
		case t.hung <- why:
		default:
		}
	})
}
