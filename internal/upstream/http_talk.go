package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// byeTime bounds the end of a session: nobody waits for it for long.
	byeTime = 2 * time.Second
	// lookTries is how often a server that a connection to failed is looked for
	// before the conversation counts as over.
	lookTries = 4
)

// talk is what conversations over streamable HTTP of both eras have in common.
type talk struct {
	o       *protocol.Config
	e       *endpoint
	self    protocol.Identity
	flights *protocol.PendingCalls
	in      protocol.NotificationSink
	log     *zap.Logger
	ratelog *ratelog.Logger
	errands protocol.BackgroundTasks
	doubt   protocol.Liveness
	hung    chan error // takes why, when the server has stopped answering
}

func newTalk(o *protocol.Config, http *HTTPOptions, p *pool, in protocol.NotificationSink) *talk {
	t := &talk{
		o:       o,
		e:       newEndpoint(p, o, http),
		self:    protocol.NewIdentity(o),
		flights: protocol.NewPendingCalls(),
		in:      in,
		log:     o.Logger,
		ratelog: ratelog.New(o.Logger),
		hung:    make(chan error, 1),
	}
	t.e.heard = &t.doubt.Received
	return t
}

// shut ends what is left of the conversation: its calls and its errands. The
// pool may be shared with another conversation that ends too.
func (t *talk) shut() {
	t.e.pool.close()
	t.errands.Finish()
	t.doubt.Tasks.Finish()
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
		return &protocol.CallError{Reason: "the stream broke off before the server answered", ConnectionLost: true}
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
		var wait protocol.Backoff
		for tries := 1; ; tries++ {
			err := t.glance(ctx, look)
			if err == nil {
				break
			}
			if tries == lookTries {
				return fmt.Errorf("the server cannot be reached: %w", err)
			}
			if err := protocol.Sleep(ctx, wait.Next(time.Now())); err != nil {
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
	ctx, cancel := context.WithTimeout(ctx, protocol.BackgroundTimeout)
	defer cancel()
	return look(ctx)
}

// notify posts a notification without params, beside the calls.
func (t *talk) notify(to *endpoint, header headers, method string) {
	t.errands.Start(func(ctx context.Context) {
		if err := to.send(ctx, header, wire.Message{Method: method}); err != nil {
			t.log.Debug("the server did not take a notification", zap.String("method", method), zap.Error(err))
		}
	})
}

// probe implements the method of [Conn].
func (t *talk) probe(why protocol.Suspicion, look func(ctx context.Context) error) {
	if why == protocol.CallTimedOut {
		t.raise(look)
	} else {
		protocol.Poke(t.e.trouble)
	}
}

// errNoListen is the answer of a conversation in an era without subscriptions/listen.
var errNoListen = &protocol.CallError{Reason: "the server's revision has no subscriptions/listen", NotSent: true}

// raise is [liveness.raise] for conversations over HTTP. The server says something when
// a message of its comes: a connection that it takes, a status before the answer, and
// the comments with which streams are kept open can be the work of a proxy, or of a
// library under a server that has got stuck.
func (t *talk) raise(look func(ctx context.Context) error) {
	t.doubt.Check(context.Background(), t.log, func(ctx context.Context) error {
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
