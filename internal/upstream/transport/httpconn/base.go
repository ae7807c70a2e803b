package httpconn

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
	CloseTimeout = 2 * time.Second
	// lookTries is how often a server that a connection to failed is looked for
	// before the conversation counts as over.
	watchTries = 4
)

// talk is what conversations over streamable HTTP of both eras have in common.
type Conn struct {
	Config     *protocol.Config
	Endpoint   *Endpoint
	Identity   protocol.Identity
	Pending    *protocol.PendingCalls
	Sink       protocol.NotificationSink
	Log        *zap.Logger
	RateLog    *ratelog.Logger
	Background protocol.BackgroundTasks
	Liveness   protocol.Liveness
	Hung       chan error // takes why, when the server has stopped answering
}

func NewConn(o *protocol.Config, http *Config, p *Pool, in protocol.NotificationSink) *Conn {
	t := &Conn{
		Config:   o,
		Endpoint: newEndpoint(p, o, http),
		Identity: protocol.NewIdentity(o),
		Pending:  protocol.NewPendingCalls(),
		Sink:     in,
		Log:      o.Logger,
		RateLog:  ratelog.New(o.Logger),
		Hung:     make(chan error, 1),
	}
	t.Endpoint.received = &t.Liveness.Received
	return t
}

// Opener opens a conversation. It leaves the pool of t to the caller on errors.
type Opener func(ctx context.Context, t *Conn) (protocol.Conn, protocol.Hello, error)

// shut ends what is left of the conversation: its calls and its errands. The
// pool may be shared with another conversation that ends too.
func (t *Conn) Close() {
	t.Endpoint.Pool.Close()
	t.Background.Finish()
	t.Liveness.Tasks.Finish()
}

// AppendRequest appends a JSON-RPC request to dst.
func AppendRequest(dst []byte, id wire.ID, method string, params wire.Raw) []byte {
	m := wire.Message{ID: id, Method: method, Params: params}
	return m.Append(dst)
}

// final turns the error of an exchange into that of a call.
func FinalError(err error) error {
	if r := StatusErrorOf(err); r != nil {
		return r.callError()
	}
	if errors.Is(err, ErrStreamEnded) {
		return &protocol.CallError{Reason: "the stream broke off before the server answered", ConnectionLost: true}
	}
	return err
}

// Watch returns when ctx ends, with its error, or when the server cannot be
// reached any more, or has stopped answering. It looks whenever a connection has failed: many a failure
// is that of one call only. look reports whether the server is there.
func (t *Conn) Watch(ctx context.Context, look func(ctx context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-t.Hung:
			return err
		case <-t.Endpoint.failed:
		}
		t.Config.Owner.ConnectionFailed()
		var wait protocol.Backoff
		for tries := 1; ; tries++ {
			err := t.CheckOnce(ctx, look)
			if err == nil {
				break
			}
			if tries == watchTries {
				return fmt.Errorf("the server cannot be reached: %w", err)
			}
			if err := protocol.Sleep(ctx, wait.Next(time.Now())); err != nil {
				return err
			}
		}
		select { // the looking itself may have met trouble
		case <-t.Endpoint.failed:
		default:
		}
	}
}

// glance calls look with a bound on its time.
func (t *Conn) CheckOnce(ctx context.Context, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, protocol.BackgroundTimeout)
	defer cancel()
	return look(ctx)
}

// notify posts a notification without params, beside the calls.
func (t *Conn) NotifyAt(to *Endpoint, header Headers, method string) {
	t.Background.Start(func(ctx context.Context) {
		if err := to.Send(ctx, header, wire.Message{Method: method}); err != nil {
			t.Log.Debug("the server did not take a notification", zap.String("method", method), zap.Error(err))
		}
	})
}

// probe implements the method of [Conn].
func (t *Conn) ProbeWith(why protocol.Suspicion, look func(ctx context.Context) error) {
	if why == protocol.CallTimedOut {
		t.CheckLiveness(look)
	} else {
		protocol.Poke(t.Endpoint.failed)
	}
}

// errNoListen is the answer of a conversation in an era without subscriptions/listen.
var ErrNoListen = &protocol.CallError{Reason: "the server's revision has no subscriptions/listen", NotSent: true}

// Raise is [liveness.raise] for conversations over HTTP. The server says something when
// a message of its comes: a connection that it takes, a status before the answer, and
// the comments with which streams are kept open can be the work of a proxy, or of a
// library under a server that has got stuck.
func (t *Conn) CheckLiveness(look func(ctx context.Context) error) {
	t.Liveness.Check(context.Background(), t.Log, func(ctx context.Context) error {
		if t.Endpoint.credentials != nil {
			// They may come from elsewhere, and a server must not pay for that.
			if _, err := t.Endpoint.credentials.Headers(ctx, t.Config.Owner.Principal()); err != nil {
				return nil
			}
		}
		return look(ctx)
	}, func(why error) {
		select {
		case t.Hung <- why:
		default:
		}
	})
}
