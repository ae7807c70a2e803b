package streamable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// modernConn is a conversation over streamable HTTP with a server of 2026-07-28 or later.
// There is no session: each request is complete, and the conversation consists of the
// connections and the subscription.
type modernConn struct {
	*httpconn.Conn
	tools    httpconn.ToolHeaders // nil: no parameter goes into a header
	dialect  atomic.Pointer[dialect]
	listener *protocol.Listener
	// stale gets the reason when the era or the revisions of the server have changed.
	stale chan error
}

// dialect is a revision with the headers that its requests share.
type dialect struct {
	revision wire.Revision
	header   httpconn.Headers
	// calls holds the headers of calls of tools by the name of the tool, of at most maxKnownTools.
	calls atomic.Pointer[map[string]httpconn.Headers] // the map is never changed
}

// maxKnownTools bounds the tools whose headers a dialect keeps, and maxKnownName the length of
// their names. Headers of other calls are made for each call.
const maxKnownTools, maxKnownName = 128, 256

func newModern(t *httpconn.Conn, tools httpconn.ToolHeaders) *modernConn {
	m := &modernConn{Conn: t, tools: tools, stale: make(chan error, 1)}
	m.listener = protocol.NewListener(t.Sink, t.Config, wire.Raw(`{}`))
	m.listener.Open = m.subscribe
	m.setRevision(wire.LatestModern)
	return m
}

// setRevision sets the revision of the next requests.
func (m *modernConn) setRevision(rev wire.Revision) {
	m.dialect.Store(&dialect{revision: rev, header: m.Endpoint.Header(wire.HeaderVersion, string(rev))})
}

// discover sends server/discover. It returns all revisions that the server lists. The
// error is a *wire.Error or a *httpconn.StatusError of the server, a *protocol.CallError,
// httpconn.ErrStreamEnded, or that of ctx.
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
	// A server does not execute a call that it refuses for its headers or its revision.
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

// protocolError returns the JSON-RPC error of the server in err, nil if there is none.
func protocolError(err error) *wire.Error {
	if r := httpconn.StatusErrorOf(err); r != nil {
		return r.RPC
	}
	e, _ := errors.AsType[*wire.Error](err)
	return e
}

// once sends the call. The errors are those of discover. When ctx ends, the connection or
// stream of the request is closed, which cancels it at the server (2026-07-28,
// basic/transports/streamable-http, "Cancellation").
func (m *modernConn) once(ctx context.Context, d *dialect, c *call.Call) (call.Result, error) {
	f, err := m.Pending.Begin(c)
	if err != nil {
		return call.Result{}, err
	}
	defer m.Pending.End(f)
	x := httpconn.Exchange{
		Endpoint: m.Endpoint, ID: f.ID, Early: func(msg wire.Message) { m.handle(msg, c) },
		Releases: protocol.ReleasesResult(c.Method),
	}
	msg, err := m.post(ctx, d, f, &x)
	if err != nil {
		return call.Result{}, err
	}
	return protocol.ResultOf(msg, d.revision)
}

// post sends the request of a pending call.
func (m *modernConn) post(ctx context.Context, d *dialect, f *protocol.PendingCall, x *httpconn.Exchange) (wire.Message, error) {
	c := f.Call
	p := httpconn.NewPayload(&wire.Message{ID: f.ID, Method: c.Method, Params: m.Identity.Params(d.revision, f)})
	defer p.Release()
	return x.Post(ctx, m.header(d, c), p)
}

// header returns the headers of a request (2026-07-28,
// basic/transports/streamable-http, "Request Metadata").
func (m *modernConn) header(d *dialect, c *call.Call) httpconn.Headers {
	member, _ := wire.MethodOf(c.Method).Header()
	name, named := "", false
	if member != "" {
		name, named = wire.ValueOf(c.Params).Get(member).Text()
	}
	switch {
	case !named:
		return d.of(c.Method).ForCall(c)
	case c.Method != wire.MethodToolsCall:
		return d.naming(c.Method, name).ForCall(c)
	}
	h := d.calling(name).ForCall(c)
	if m.tools == nil {
		return h
	}
	for _, p := range m.tools.HeaderParams(name) {
		if value, ok := p.Value(wire.ValueOf(c.Params).Get("arguments").Raw()); ok {
			h.Add(p.Header, value)
		}
	}
	return h
}

// of returns the headers of the requests of a method.
func (d *dialect) of(method string) httpconn.Headers {
	h := d.header
	h.Add(wire.HeaderMethod, method)
	return h
}

// naming returns the headers of a request that names an item.
func (d *dialect) naming(method, item string) httpconn.Headers {
	h := d.of(method)
	h.Add(wire.HeaderName, wire.EncodeHeader(item))
	return h
}

// calling returns the headers of a call of a tool. It keeps those of the first tools.
func (d *dialect) calling(tool string) httpconn.Headers {
	known := d.calls.Load()
	if known != nil {
		if h, ok := (*known)[tool]; ok {
			return h
		}
		if len(*known) >= maxKnownTools {
			return d.naming(wire.MethodToolsCall, tool)
		}
	}
	h := d.naming(wire.MethodToolsCall, tool)
	if len(tool) > maxKnownName {
		return h
	}
	h = h.Shared()
	next := map[string]httpconn.Headers{tool: h}
	if known != nil {
		maps.Copy(next, *known)
	}
	d.calls.CompareAndSwap(known, &next) // if another goroutine was faster, the next call keeps this one
	return h
}

// handle handles a message that comes before the response. A modern server must not send
// requests, and there is no way to answer them.
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

// expire ends the conversation, so that the next one detects the server again.
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

// Notify implements [protocol.Conn]. A modern server accepts no notifications but
// cancellations.
func (m *modernConn) Notify(string) {}

// Probe implements [protocol.Conn]. There is no session that the server could have
// forgotten, and every call shows whether the server can be reached.
func (m *modernConn) Probe(why protocol.Suspicion) {
	if why != protocol.ConnectionFailed {
		m.CheckLiveness(why, m.probe)
	}
}

// Ping implements [protocol.Conn].
func (m *modernConn) Ping(ctx context.Context) error { return answered(m.ping(ctx)) }

// Traits implements [protocol.Conn].
func (m *modernConn) Traits() protocol.Traits {
	return protocol.Traits{Sessions: protocol.SessionNone, Listens: true, HeaderParams: true}
}

// serve is Run, but leaves the connections open.
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

// ping checks whether the server is still modern. The error is that of discover.
func (m *modernConn) ping(ctx context.Context) error {
	_, _, err := m.discover(ctx)
	if r := httpconn.StatusErrorOf(err); r != nil && r.RPC == nil && legacyStatus(r.Status) {
		m.expire(fmt.Errorf("the server does not know modern requests any more: %w", err))
	}
	return err
}

// probe checks whether the server responds and is still modern.
func (m *modernConn) probe(ctx context.Context) error { return unreachable(m.ping(ctx)) }

// subscribe prepares the request for one subscription, which has its own stream.
func (m *modernConn) subscribe(_ context.Context, c *call.Call) (func(ctx context.Context) error, error) {
	return func(ctx context.Context) error { return m.readSubscription(ctx, c) }, nil
}

// readSubscription opens the stream of a subscription and reads it to its end. The error
// is nil if the server ended it properly.
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

// refusedForGood reports whether err is an HTTP status that stays the same later.
func refusedForGood(err error) bool {
	r := httpconn.StatusErrorOf(err)
	return r != nil && r.Status < 500 && r.Status != http.StatusTooManyRequests
}

// Listen implements [protocol.Conn].
func (m *modernConn) Listen(ctx context.Context, uris []string) ([]string, error) {
	return m.listener.Listen(ctx, uris)
}
