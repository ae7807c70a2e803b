package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// modernHTTP is a conversation over streamable HTTP with a server of 2026-07-28
// or later. There is no session: every request says all there is to know, and
// the conversation is but the connections and the stream of changes.
type modernConn struct {
	*httpconn.Conn
	tools    httpconn.ToolHeaders // nil: no parameter goes into a header
	dialect  atomic.Pointer[dialect]
	listener *protocol.Listener
	// stale takes the reason when the server turns out not to be what it was
	// found to be.
	stale chan error
}

// dialect is a revision with the headers that its requests have in common. It
// is immutable.
type dialect struct {
	revision wire.Revision
	header   httpconn.Headers
}

func newModern(t *httpconn.Conn, tools httpconn.ToolHeaders) *modernConn {
	m := &modernConn{Conn: t, tools: tools, stale: make(chan error, 1)}
	m.listener = protocol.NewListener(t.Sink, t.Log, wire.Raw(`{}`))
	m.listener.Open = m.subscribe
	m.setRevision(wire.LatestModern)
	return m
}

// speak changes the revision of the requests to come.
func (m *modernConn) setRevision(rev wire.Revision) {
	m.dialect.Store(&dialect{revision: rev, header: m.Endpoint.Header(wire.HeaderVersion, string(rev))})
}

// discover asks the server what it is. The revisions are those that it lists.
// The error is a *wire.Error or a *refusal of the server's, a *CallError, errCutOff,
// or that of ctx.
func (m *modernConn) discover(ctx context.Context) (protocol.Hello, []wire.Revision, error) {
	d := m.dialect.Load()
	r, err := m.once(ctx, d, m.Identity.DiscoverCall())
	if err != nil {
		return protocol.Hello{}, nil, err
	}
	h, listed, err := protocol.ReadDiscover(r.Raw)
	if err != nil {
		return protocol.Hello{}, nil, &protocol.CallError{Reason: err.Error()}
	}
	h.Revision = d.revision
	return h, listed, nil
}

// Call implements [protocol.Conn].
func (m *modernConn) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	d := m.dialect.Load()
	r, err := m.once(ctx, d, c)
	if err == nil {
		return r, nil
	}
	// What the server refuses for its headers or its revision it has not begun.
	switch refused := protocolError(err); {
	case refused == nil:
	case refused.Code == wire.CodeHeaderMismatch && c.Method == wire.MethodToolsCall && m.tools != nil:
		if rerr := m.tools.Relist(ctx); rerr != nil {
			m.Log.Debug("the tools could not be listed again after a header mismatch", zap.Error(rerr))
			break
		}
		r, err = m.once(ctx, d, c)
	case refused.Code == wire.CodeUnsupportedRev:
		next := protocol.Newest(wire.EraModern, protocol.SupportedBy(refused))
		if next == "" {
			m.expire(fmt.Errorf("the server does not speak revision %s any more", d.revision))
		} else if next != d.revision {
			m.setRevision(next)
			r, err = m.once(ctx, m.dialect.Load(), c)
		}
	}
	return r, httpconn.FinalError(err)
}

// protocolError returns the server's JSON-RPC error in err, nil when there is
// none.
func protocolError(err error) *wire.Error {
	if r := httpconn.StatusErrorOf(err); r != nil {
		return r.RPC
	}
	e, _ := errors.AsType[*wire.Error](err)
	return e
}

// once sends the call. The errors are those of discover. When ctx ends, the
// connection or stream of the request closes, which tells the server so
// (2026-07-28, basic/transports/streamable-http, "Cancellation").
func (m *modernConn) once(ctx context.Context, d *dialect, c *call.Call) (call.Result, error) {
	f, err := m.Pending.Begin(c)
	if err != nil {
		return call.Result{}, err
	}
	defer m.Pending.End(f)
	x := httpconn.Exchange{Endpoint: m.Endpoint, ID: f.ID, Early: func(msg wire.Message) { m.handle(msg, c) }}
	msg, err := m.post(ctx, d, f, &x)
	if err != nil {
		return call.Result{}, err
	}
	return protocol.ResultOf(msg, d.revision)
}

// post sends the request of a flight.
func (m *modernConn) post(ctx context.Context, d *dialect, f *protocol.PendingCall, x *httpconn.Exchange) (wire.Message, error) {
	c := f.Call
	p := httpconn.NewPayload()
	defer p.Release()
	p.Data = httpconn.AppendRequest(p.Data, f.ID, c.Method, m.Identity.Params(d.revision, f))
	return x.Post(ctx, m.header(d, c), p)
}

// header returns the headers of a request (2026-07-28,
// basic/transports/streamable-http, "Request Metadata").
func (m *modernConn) header(d *dialect, c *call.Call) httpconn.Headers {
	h := d.header.ForCall(c)
	h.Add(wire.HeaderMethod, c.Method)
	member, _ := wire.MethodOf(c.Method).Header()
	if member == "" {
		return h
	}
	name, ok := wire.ValueOf(c.Params).Get(member).Text()
	if !ok {
		return h
	}
	h.Add(wire.HeaderName, wire.EncodeHeader(name))
	if c.Method != wire.MethodToolsCall || m.tools == nil {
		return h
	}
	for _, p := range m.tools.HeaderParams(name) {
		if value, ok := p.Value(wire.ValueOf(c.Params).Get("arguments").Raw()); ok {
			h.Add(p.Header, value)
		}
	}
	return h
}

// hear takes what comes before an answer. A modern server must not send
// requests: one that does gets no answer, since there is no way to send it.
func (m *modernConn) handle(msg wire.Message, c *call.Call) {
	if msg.IsRequest() {
		m.Log.Debug("the server sent a request, which its revision forbids", zap.String("method", msg.Method))
		return
	}
	switch wire.MethodOf(msg.Method).Scope {
	case wire.ScopeProgressToken:
		m.Pending.Progress(msg.Params)
	case wire.ScopeServer, wire.ScopeSubscription:
		m.Sink.Notified(msg.Method, msg.Params)
	default:
		c.Back.Notify(msg.Method, msg.Params)
	}
}

// expire ends the conversation: the server is to be found out anew.
func (m *modernConn) expire(reason error) {
	select {
	case m.stale <- reason:
	default:
	}
}

// Run implements [protocol.Conn].
func (m *modernConn) Run(ctx context.Context) error {
	defer m.Close()
	return m.serve(ctx)
}

// Notify implements [protocol.Conn]. A modern server takes no notifications but cancellations.
func (m *modernConn) Notify(string) {}

// Probe implements [protocol.Conn]. There is no session that the server could have forgotten,
// and every call shows whether the server can be reached.
func (m *modernConn) Probe(why protocol.Suspicion) {
	if why == protocol.CallTimedOut {
		m.CheckLiveness(m.probe)
	}
}

// Traits implements [protocol.Conn].
func (m *modernConn) Traits() protocol.Traits {
	return protocol.Traits{Sessions: protocol.SessionNone, Listens: true, HeaderParams: true}
}

// serve is run without the end of the connections.
func (m *modernConn) serve(ctx context.Context) error {
	inner, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.listener.Run(inner)
	}()
	ended := make(chan error, 1)
	go func() { ended <- m.Watch(inner, m.probe) }()
	var err error
	select {
	case err = <-ended:
	case err = <-m.stale:
		stop(err)
		<-ended
	}
	stop(err)
	<-done
	m.Pending.Close(err)
	return err
}

// look reports whether the server is there, and still of the modern era.
func (m *modernConn) probe(ctx context.Context) error {
	_, _, err := m.discover(ctx)
	if r := httpconn.StatusErrorOf(err); r != nil && r.RPC == nil && legacyStatus(r.Status) {
		m.expire(fmt.Errorf("the server does not know modern requests any more: %w", err))
	}
	return unreachable(err)
}

// subscribe makes the request for one subscription, which has a stream of its
// own.
func (m *modernConn) subscribe(_ context.Context, c *call.Call) (func(ctx context.Context) error, error) {
	return func(ctx context.Context) error { return m.readSubscription(ctx, c) }, nil
}

// hearOut opens the stream of a subscription and reads it to its end, which is
// the server's when the error is nil.
func (m *modernConn) readSubscription(ctx context.Context, c *call.Call) error {
	f, err := m.Pending.Begin(c)
	if err != nil {
		return err
	}
	defer m.Pending.End(f)
	x := httpconn.Exchange{Endpoint: m.Endpoint, ID: f.ID, Early: func(msg wire.Message) {
		switch {
		case msg.IsRequest():
		case protocol.SubscriptionOf(msg.Params) != f.ID:
			m.Log.Debug("the server sent a notification of another subscription", zap.String("method", msg.Method))
		case msg.Method == wire.NoteAcknowledged:
			c.Back.Notify(msg.Method, msg.Params)
		default:
			m.Sink.Notified(msg.Method, protocol.WithoutSubscription(msg.Params))
		}
	}}
	msg, err := m.post(ctx, m.dialect.Load(), f, &x)
	switch {
	case err == nil && msg.Error == nil:
		return nil
	case err == nil:
		return &protocol.ListenRefused{Err: msg.Error}
	case protocolError(err) != nil || refusedForGood(err):
		return &protocol.ListenRefused{Err: httpconn.FinalError(err)}
	default:
		return httpconn.FinalError(err)
	}
}

// refusedForGood reports whether err is an HTTP status that will not change by
// waiting.
func refusedForGood(err error) bool {
	r := httpconn.StatusErrorOf(err)
	return r != nil && r.Status < 500 && r.Status != http.StatusTooManyRequests
}

// Listen implements [protocol.Conn].
func (m *modernConn) Listen(ctx context.Context, uris []string) ([]string, error) {
	return m.listener.Listen(ctx, uris)
}
