package httpconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// CloseTimeout bounds what the server is told at the end of a conversation.
	CloseTimeout = 2 * time.Second
	// maxEnding bounds the cancellations that are sent at the same time at the end of a conversation.
	maxEnding = 64
	// watchTries is how often a server is probed after a connection has failed, before
	// the conversation ends.
	watchTries = 4
)

// Conn has the common state of all conversations over HTTP. Transports embed it.
type Conn struct {
	Config     *protocol.Config
	HTTP       *Config
	Endpoint   *Endpoint
	Identity   protocol.Identity
	Pending    *protocol.PendingCalls
	Sink       protocol.NotificationSink
	Log        *zap.Logger
	RateLog    *ratelog.Logger
	Background protocol.BackgroundTasks
	Liveness   protocol.Liveness
	Hung       chan error // gets the reason when the server has stopped answering
}

// NewConn returns the common part of a conversation over the connections of p.
func NewConn(o *protocol.Config, http *Config, p *Pool, in protocol.NotificationSink) *Conn {
	t := &Conn{
		Config:   o,
		HTTP:     http,
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

// Opener opens a conversation. On errors the caller closes the pool of t.
type Opener func(ctx context.Context, t *Conn) (protocol.Conn, protocol.Hello, error)

// Close closes the connections and waits for the background tasks. The pool may be shared
// with another conversation, which then ends too.
func (t *Conn) Close() {
	t.Endpoint.Pool.Close()
	t.Background.Finish()
	t.Liveness.Tasks.Finish()
}

// FinalError returns the error of a call for the error of an [Exchange].
func FinalError(err error) error {
	if r := StatusErrorOf(err); r != nil {
		return r.callError()
	}
	if errors.Is(err, ErrStreamEnded) {
		return &protocol.CallError{Reason: "the stream broke off before the server answered", ConnectionLost: true}
	}
	return err
}

// Watch waits until ctx ends, the server cannot be reached, or it has stopped answering,
// and returns the reason. It calls look, which probes the server, whenever a connection
// has failed: the failure may concern one call only.
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
		select { // the connections of the probes may have failed too
		case <-t.Endpoint.failed:
		default:
		}
	}
}

// CheckOnce calls look with a timeout.
func (t *Conn) CheckOnce(ctx context.Context, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, protocol.BackgroundTimeout)
	defer cancel()
	return look(ctx)
}

// NotifyAt posts a notification without params in the background.
func (t *Conn) NotifyAt(to *Endpoint, header Headers, method string) {
	t.Background.Start(func(ctx context.Context) {
		if err := to.Send(ctx, header, wire.Message{Method: method}); err != nil {
			t.Log.Debug("the server did not take a notification", zap.String("method", method), zap.Error(err))
		}
	})
}

// Cancel tells the server in the background that the response to a call is no longer needed:
// in the legacy era a closed connection does not mean that. It keeps no params of the call:
// many cancellations may wait.
func (t *Conn) Cancel(to *Endpoint, header Headers, f *protocol.PendingCall) {
	header = header.ForCall(f.Call)
	var m wire.Message
	t.Background.StartIf(
		func() (ok bool) { m, ok = f.Cancellation(); return ok },
		func(ctx context.Context) { t.sendCancellation(ctx, to, header, m) },
	)
}

func (t *Conn) sendCancellation(ctx context.Context, to *Endpoint, header Headers, m wire.Message) {
	if t.Endpoint.Pool.Closed() {
		return // Close must not wait for the credentials of each cancellation that waits
	}
	if err := to.Send(ctx, header, m); err != nil {
		t.Log.Debug("the server did not take a cancellation", zap.Error(err))
	}
}

// EndCalls cancels the calls that were pending when the gateway ended a conversation. It
// returns when these and all other messages in the background have arrived, or when half of
// CloseTimeout has passed, so that time is left to end the session. A server refuses them
// afterwards, and may wait for its calls before it answers that the session has ended.
//
// A call whose client has cancelled it is pending until its own cancellation runs or waits. So
// each call is cancelled, and only once.
func (t *Conn) EndCalls(to *Endpoint, header Headers, pending []*protocol.PendingCall) {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout/2)
	defer cancel()
	var sending errgroup.Group
	sending.SetLimit(maxEnding)
	for _, f := range pending {
		sending.Go(func() error {
			if m, ok := f.Cancellation(); ok {
				t.sendCancellation(ctx, to, header.ForCall(f.Call), m)
			}
			return nil
		})
	}
	_ = sending.Wait() // no error
	t.Background.FinishWithin(ctx)
}

// ProbeWith implements the method Probe of [protocol.Conn]. look probes the server.
func (t *Conn) ProbeWith(why protocol.Suspicion, look func(ctx context.Context) error) {
	if why == protocol.ConnectionFailed {
		protocol.Poke(t.Endpoint.failed)
	} else {
		t.CheckLiveness(why, look)
	}
}

// ErrNoListen is the error of Listen in an era without subscriptions/listen.
var ErrNoListen = &protocol.CallError{Reason: "the server's revision has no subscriptions/listen", NotSent: true}

// CheckLiveness is [protocol.Liveness.Check] for conversations over HTTP. Only messages
// of the server show that it is alive: a proxy, or a library under a stuck server, may
// accept connections, send a status, and keep streams open with comments. Nobody probes an
// idle server with the credentials of a principal, which may have expired.
func (t *Conn) CheckLiveness(why protocol.Suspicion, look func(ctx context.Context) error) {
	if why == protocol.Idle && t.Endpoint.credentials != nil && t.Config.Owner.Principal() != nil {
		return
	}
	t.Liveness.Check(context.Background(), protocol.Probe{Why: why, Pending: t.Pending, Log: t.Log, Ask: func(ctx context.Context) error {
		if t.Endpoint.credentials != nil {
			// A failure to get credentials says nothing about the server.
			if _, err := t.Endpoint.credentials.Headers(ctx, t.Config.Owner.Principal()); err != nil {
				return nil
			}
		}
		return look(ctx)
	}, Hung: func(why error) {
		select {
		case t.Hung <- why:
		default:
		}
	}})
}
