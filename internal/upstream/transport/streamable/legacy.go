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

// legacyConn is a conversation over streamable HTTP with a server of 2025-03-26 to
// 2025-11-25. It outlives the sessions of the server: the first call that finds a session
// forgotten opens the next one.
type legacyConn struct {
	*httpconn.Conn
	session atomic.Pointer[session]
	opening chan struct{} // holds a token unless a goroutine opens a session
	stream  *protocol.Stream
}

// session is one session at the server. It is immutable.
type session struct {
	id       string // "" if the server assigned none
	revision wire.Revision
	header   httpconn.Headers // of every request of the session, shared by all
	// end ends life when another session replaces this one.
	life context.Context
	end  context.CancelFunc
}

// openLegacy opens a conversation with initialize. The error is a *wire.Error or a
// *httpconn.StatusError of the server, a *protocol.CallError, or that of ctx.
func openLegacy(ctx context.Context, t *httpconn.Conn) (*legacyConn, protocol.Hello, error) {
	l := &legacyConn{Conn: t, opening: make(chan struct{}, 1), stream: protocol.NewStream()}
	l.opening <- struct{}{}
	s, h, err := l.initialize(ctx)
	if err != nil {
		return nil, protocol.Hello{}, err
	}
	l.session.Store(s)
	return l, h, nil
}

// initialize opens a session. The errors are those of openLegacy.
func (l *legacyConn) initialize(ctx context.Context) (*session, protocol.Hello, error) {
	c := l.Identity.InitializeCall()
	f, err := l.Pending.Begin(c)
	if err != nil {
		return nil, protocol.Hello{}, err
	}
	defer l.Pending.End(f)
	p := httpconn.NewPayload(&wire.Message{ID: f.ID, Method: c.Method, Params: c.Params})
	defer p.Release()
	resp, err := l.Endpoint.Do(ctx, http.MethodPost, l.Endpoint.Header(), p)
	if err != nil {
		return nil, protocol.Hello{}, err
	}
	id := resp.Header.Get(wire.HeaderSession)
	x := httpconn.Exchange{Endpoint: l.Endpoint, ID: f.ID, Early: func(wire.Message) {}} // a server must not send requests before initialized
	m, err := x.Receive(ctx, resp)
	switch {
	case errors.Is(err, httpconn.ErrStreamEnded):
		return nil, protocol.Hello{}, httpconn.FinalError(err)
	case err != nil:
		return nil, protocol.Hello{}, err
	case m.Error != nil:
		return nil, protocol.Hello{}, m.Error
	}
	h, err := protocol.ReadInitialize(m.Result)
	if err == nil && !validSession(id) {
		err = fmt.Errorf("the server's session id has characters that are not visible ASCII")
	}
	if err != nil {
		return nil, protocol.Hello{}, &protocol.CallError{Reason: err.Error()}
	}
	s := &session{id: id, revision: h.Revision}
	s.life, s.end = context.WithCancel(context.Background())
	version := ""
	if h.Revision.HasVersionHeader() {
		version = string(h.Revision)
	}
	s.header = l.Endpoint.Header(wire.HeaderSession, id, wire.HeaderVersion, version)
	l.opened(s)
	if err := l.Endpoint.Send(ctx, s.header, wire.Message{Method: wire.NoteInitialized}); err != nil {
		l.closed(s)
		return nil, protocol.Hello{}, err
	}
	return s, h, nil
}

// entry returns what the book has of a session.
func (l *legacyConn) entry(s *session) httpconn.OpenSession {
	return httpconn.OpenSession{URL: httpconn.RequestURL(l.HTTP.URL).String(), ID: s.id, Revision: s.revision}
}

func (l *legacyConn) opened(s *session) {
	if l.HTTP.Book != nil && s.id != "" {
		l.HTTP.Book.Opened(l.entry(s))
	}
}

func (l *legacyConn) closed(s *session) {
	if l.HTTP.Book != nil && s.id != "" {
		l.HTTP.Book.Closed(l.entry(s))
	}
}

// validSession reports whether a session id has none but visible ASCII
// characters (2025-11-25, basic/transports, "Session Management").
func validSession(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// Call implements [protocol.Conn].
func (l *legacyConn) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	s := l.session.Load()
	r, err := l.once(ctx, s, c)
	if s.forgotten(err) && !refusesMethod(c.Method, httpconn.StatusErrorOf(err)) {
		if s, err = l.renew(ctx, s); err == nil {
			r, err = l.once(ctx, s, c)
		}
	}
	return r, httpconn.FinalError(err)
}

// once sends the call in a session. The error is a *wire.Error or a *httpconn.StatusError
// of the server, a *protocol.CallError, httpconn.ErrStreamEnded, or that of ctx.
func (l *legacyConn) once(ctx context.Context, s *session, c *call.Call) (call.Result, error) {
	f, err := l.Pending.Begin(c)
	if err != nil {
		return call.Result{}, err
	}
	defer l.Pending.End(f)
	p := httpconn.NewPayload(&wire.Message{ID: f.ID, Method: c.Method, Params: l.Identity.Params(s.revision, f)})
	defer p.Release()

	ears := streamHandler{l: l, s: s, ctx: ctx, c: c}
	x := httpconn.Exchange{Endpoint: l.Endpoint, ID: f.ID, Early: ears.handle, Releases: protocol.ReleasesResult(c.Method)}
	ears.x = &x
	m, err := x.Post(ctx, s.header.ForCall(c), p)
	if errors.Is(err, httpconn.ErrStreamEnded) {
		m, err = l.resume(ctx, s.header.ForCall(c), &x)
	}
	ears.close()
	if ctx.Err() == nil && f.Cancelled() {
		// The conversation ends. What the server answers, if anything, is about the cancellation.
		return call.Result{}, &protocol.CallError{Reason: protocol.ReasonConnectionLost, NotSent: !p.Sent.Load(), ConnectionLost: true, ConversationClosed: true, Cause: httpconn.FinalError(err)}
	}
	if err != nil {
		if ctx.Err() != nil && p.Sent.Load() {
			l.Cancel(l.Endpoint, s.header, f)
		}
		if x.Broken() && ctx.Err() == nil {
			err = errAnswerRefused
		}
		return call.Result{}, err
	}
	return protocol.ResultOf(m, s.revision)
}

// errAnswerRefused ends a call that would wait for an answer that the server does not take.
var errAnswerRefused = &protocol.CallError{Reason: "the server has forgotten the session of the call, and did not take the answer to its question"}

// forgotten reports whether err says that the server no longer knows the session: status
// 404, or 400 from many servers. A JSON-RPC error with the id of the request and the code
// of a request that was understood is a response with any status: a new session would
// lose the state at the server.
func (s *session) forgotten(err error) bool {
	r := httpconn.StatusErrorOf(err)
	if r == nil || s.id == "" || r.IsModern() {
		return false
	}
	understood := false
	if r.OwnID {
		switch r.RPC.Code {
		case wire.CodeMethodNotFound:
			understood = true
		case wire.CodeInvalidParams, wire.CodeInternal:
			understood = r.Status == http.StatusBadRequest
		}
	}
	return !understood && (r.Status == http.StatusNotFound || r.Status == http.StatusBadRequest)
}

// renew replaces a forgotten session and returns the new one. Concurrent callers get the
// same session. It reports every list as changed, since notifications may have been lost.
func (l *legacyConn) renew(ctx context.Context, old *session) (*session, error) {
	select {
	case <-l.opening:
		defer func() { l.opening <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := l.session.Load(); s != old {
		return s, nil
	}
	s, h, err := l.initialize(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &protocol.CallError{Reason: "the server has forgotten the session and does not open a new one", NotSent: true, Cause: err}
	}
	l.Log.Info("the server had forgotten the session, a new one is open")
	l.session.Store(s)
	old.end()
	l.closed(old)
	l.Sink.Renewed()
	for _, m := range wire.MethodsOf(wire.KindListChanged) {
		if protocol.Declares(h.Capabilities, m.Capability) {
			l.Sink.Notified(m.Name, nil)
		}
	}
	return s, nil
}

// Run implements [protocol.Conn].
func (l *legacyConn) Run(ctx context.Context) error {
	defer l.Close()
	return l.serve(ctx)
}

// Notify implements [protocol.Conn].
func (l *legacyConn) Notify(method string) { l.NotifyAt(l.Endpoint, l.session.Load().header, method) }

// Probe implements [protocol.Conn].
func (l *legacyConn) Probe(why protocol.Suspicion) { l.ProbeWith(why, l.probe) }

// Ping implements [protocol.Conn].
func (l *legacyConn) Ping(ctx context.Context) error { return answered(l.ping(ctx)) }

// Listen implements [protocol.Conn]. The era has no such request.
func (l *legacyConn) Listen(context.Context, []string) ([]string, error) {
	return nil, httpconn.ErrNoListen
}

// Traits implements [protocol.Conn].
func (l *legacyConn) Traits() protocol.Traits {
	return protocol.Traits{Sessions: protocol.SessionHTTP, Asks: true, Stream: l.stream}
}

// serve is Run, but leaves the connections open.
func (l *legacyConn) serve(ctx context.Context) error {
	streams, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.listen(streams)
	}()
	err := l.Watch(ctx, l.probe)
	if ctx.Err() != nil {
		// The request for the stream has a connection of its own, and must not arrive after the end of the session.
		l.stream.Await(context.WithoutCancel(ctx))
	}
	stop()
	<-done
	pending := l.Pending.Close(err)
	if ctx.Err() != nil {
		l.endSession(pending)
	}
	l.closed(l.session.Load())
	return err
}

// ping sends a ping, and replaces a forgotten session. The error is that of once.
func (l *legacyConn) ping(ctx context.Context) error {
	s := l.session.Load()
	_, err := l.once(ctx, s, &call.Call{Method: wire.MethodPing, Back: protocol.NoClient{}})
	if s.forgotten(err) {
		_, err = l.renew(ctx, s)
	}
	return err
}

// probe checks whether the server responds, and replaces a forgotten session.
func (l *legacyConn) probe(ctx context.Context) error { return unreachable(l.ping(ctx)) }

// answered returns the error of a ping for callers: nil if err is one of the server.
func answered(err error) error {
	err = httpconn.FinalError(err)
	if _, refused := err.(*wire.Error); refused { // and not one of the gateway's parser that a *protocol.CallError wraps
		return nil
	}
	return err
}

// unreachable returns err if it means that the server cannot be reached. A server that
// responds with an error can be reached.
func unreachable(err error) error {
	if r := httpconn.StatusErrorOf(err); r != nil {
		switch r.Status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return r
		}
		return nil
	}
	if f, ok := errors.AsType[*protocol.CallError](err); ok && (f.ConnectionLost || f.NotSent) {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// endSession cancels the pending calls, and then ends the session at the server (2025-11-25,
// basic/transports, "Session Management").
func (l *legacyConn) endSession(pending []*protocol.PendingCall) {
	ctx, cancel := context.WithTimeout(context.Background(), httpconn.CloseTimeout)
	defer cancel()
	s := l.session.Load() // the server has forgotten the sessions before, and their calls
	l.EndCalls(l.Endpoint, s.header, pending)
	if s.id == "" {
		return
	}
	if err := endSession(ctx, l.Endpoint, s.header); err != nil {
		l.Log.Debug("the session could not be ended at the server", zap.Error(err))
	}
}

func endSession(ctx context.Context, e *httpconn.Endpoint, header httpconn.Headers) error {
	resp, err := e.Do(ctx, http.MethodDelete, header, nil)
	if err != nil {
		return err
	}
	httpconn.Discard(resp)
	return nil
}

// EndSession ends a session that another process has left open, with the credentials that do not depend on a principal. The server may refuse it.
func EndSession(ctx context.Context, o *protocol.Config, to *httpconn.Config, s httpconn.OpenSession) error {
	p := httpconn.NewPool(to, 1)
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, httpconn.CloseTimeout)
	defer cancel()
	e := httpconn.NewConn(o, to, p, nil).Endpoint
	version := ""
	if s.Revision.HasVersionHeader() {
		version = string(s.Revision)
	}
	return endSession(ctx, e, e.Header(wire.HeaderSession, s.ID, wire.HeaderVersion, version))
}

// refusesMethod reports whether the server does not know a method that is in no revision:
// servers of the Go SDK send status 400 without a JSON-RPC error. If the session is
// forgotten instead, the next call of another method shows that.
func refusesMethod(method string, r *httpconn.StatusError) bool {
	return r != nil && method == wire.MethodResourcesMetadata && r.Status == http.StatusBadRequest && r.RPC == nil
}
