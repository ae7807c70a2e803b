package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// Conn is a conversation over HTTP+SSE (2024-11-05, basic/transports). The server sends
// everything on one stream, and the gateway posts to the URL in the first event of the
// stream. The conversation lasts as long as the stream. A message of the server belongs
// to a call only if that is certain, see [protocol.Config.Addressee].
type Conn struct {
	*httpconn.Conn
	asks   protocol.ServerRequests
	post   *httpconn.Endpoint               // where messages go
	header atomic.Pointer[httpconn.Headers] // of every message; changes once, before dial returns
	rev    wire.Revision

	life  context.Context // of the stream and of requests of the server
	end   context.CancelFunc
	ended chan struct{} // closed when the stream has ended
	why   error         // set before ended is closed
}

// Open opens the stream and then a session. It implements [httpconn.Opener]. The errors
// are those of [protocol.Dialer].
func Open(ctx context.Context, t *httpconn.Conn) (protocol.Conn, protocol.Hello, error) {
	s := &Conn{Conn: t, ended: make(chan struct{})}
	s.asks.Config, s.asks.Liveness = t.Config, &s.Liveness
	s.asks.Send = func(ctx context.Context, m wire.Message, c *call.Call) {
		if err := s.post.Send(ctx, s.header.Load().ForCall(c), m); err != nil && ctx.Err() == nil {
			s.RateLog.Warn("the server did not take the answer to its request", t.Config.ErrorField(err))
		}
	}
	s.life, s.end = context.WithCancel(context.Background())
	unhook := context.AfterFunc(ctx, s.end) // while dialing, ctx bounds the stream too
	h, err := s.open(ctx)
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		s.Log.Debug("the server speaks HTTP+SSE", zap.String("revision", string(h.Revision)))
		return s, h, nil
	}
	s.shut(err)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, protocol.Hello{}, httpconn.FinalError(err)
}

// open connects the stream, begins to read it, and initializes the session.
func (s *Conn) open(ctx context.Context) (protocol.Hello, error) {
	r, err := s.connect()
	if err != nil {
		close(s.ended)
		return protocol.Hello{}, err
	}
	s.setVersion("")
	go s.read(r)
	h, err := s.initialize(ctx)
	if err != nil {
		return protocol.Hello{}, err
	}
	s.rev = h.Revision
	if h.Revision.HasVersionHeader() {
		s.setVersion(h.Revision)
	}
	return h, s.post.Send(ctx, *s.header.Load(), wire.Message{Method: wire.NoteInitialized})
}

// setVersion sets the version header of the messages to come, "" for none.
func (s *Conn) setVersion(rev wire.Revision) {
	h := s.Endpoint.Header(wire.HeaderVersion, string(rev))
	s.header.Store(&h)
}

// stream is the stream of the server.
type stream struct {
	*wire.SSEReader
	close func() error
}

// connect opens the stream and reads the URL that messages go to.
func (s *Conn) connect() (*stream, error) {
	resp, err := s.Endpoint.Do(s.life, http.MethodGet, httpconn.StreamHeader(s.Endpoint.Header(), ""), nil)
	if err != nil {
		return nil, err
	}
	if mt := httpconn.MediaType(resp.Header); resp.StatusCode != http.StatusOK || mt != httpconn.TypeStream {
		if resp.StatusCode == http.StatusOK {
			httpconn.Discard(resp)
			return nil, &protocol.CallError{Reason: "the server answered the request for a stream with " + diagnose.ContentName(mt)}
		}
		return nil, httpconn.ReadStatusError(resp)
	}
	r := &stream{s.Endpoint.NewEventReader(resp.Body), resp.Body.Close}
	r.SetMaxEvent(skippedEvent * int64(s.Endpoint.Max))
	u, err := firstEvent(r, resp.Request.URL)
	if err != nil {
		r.close()
		return nil, err
	}
	s.post = s.Endpoint.At(u)
	return r, nil
}

// firstEvent reads the event with the URL for messages. The URL must have the origin of
// the stream, since messages carry the configured headers.
func firstEvent(r *stream, from *url.URL) (*url.URL, error) {
	ev, err := r.Next()
	if err != nil {
		return nil, &protocol.CallError{Reason: "the server's stream broke off before its first event", ConnectionLost: true, Cause: err}
	}
	if ev.Name != "endpoint" {
		return nil, &protocol.CallError{Reason: "the server's stream does not begin with the event \"endpoint\""}
	}
	u, err := from.Parse(string(ev.Data))
	if err != nil || len(ev.Data) == 0 {
		return nil, &protocol.CallError{Reason: "the server's endpoint event holds no URL"}
	}
	if !httpconn.SameOrigin(from, u) {
		return nil, &protocol.CallError{Reason: "the server's endpoint event leads to another origin, where credentials must not go", Cause: fmt.Errorf("endpoint %.200q", ev.Data)}
	}
	return httpconn.RequestURL(u), nil
}

func (s *Conn) initialize(ctx context.Context) (protocol.Hello, error) {
	r, err := s.Call(ctx, s.Identity.InitializeCall())
	if err != nil {
		return protocol.Hello{}, err
	}
	h, err := protocol.ReadInitialize(r.Raw)
	if err != nil {
		return protocol.Hello{}, &protocol.CallError{Reason: err.Error()}
	}
	return h, nil
}

// Call implements [protocol.Conn].
func (s *Conn) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	f, err := s.Pending.BeginDelivered(c)
	if err != nil {
		return call.Result{}, err
	}
	defer s.Pending.End(f)
	m := wire.Message{ID: f.ID, Method: c.Method, Params: s.Identity.Params(s.rev, f)}
	if err := s.post.Send(ctx, s.header.Load().ForCall(c), m); err != nil {
		if ctx.Err() != nil {
			s.Cancel(s.post, *s.header.Load(), f)
		}
		if s.forgotten(ctx, c, err) {
			return call.Result{}, errForgotten
		}
		return call.Result{}, httpconn.FinalError(err)
	}
	select {
	case a := <-f.Answer:
		if a.Err != nil {
			return call.Result{}, a.Err
		}
		return protocol.ResultOf(a.Message, s.rev)
	case <-ctx.Done():
		s.Cancel(s.post, *s.header.Load(), f)
		return call.Result{}, ctx.Err()
	}
}

// errForgotten is the error of a call whose session the server no longer knows.
var errForgotten = &protocol.CallError{Reason: "the server has forgotten the session", NotSent: true, ConnectionLost: true, ConversationClosed: true}

// forgotten reports whether the server no longer knows the session, although the stream is
// open, and then ends the conversation. err is the error of the message of a call. Servers
// answer such a message with status 404 or 400, but a message that they cannot read too:
// a ping shows the difference.
func (s *Conn) forgotten(ctx context.Context, c *call.Call, err error) bool {
	if c.Method == wire.MethodInitialize || !refused(err) {
		return false
	}
	f, err := s.Pending.BeginDelivered(&call.Call{Method: wire.MethodPing, Back: protocol.NoClient{}})
	if err != nil {
		return false
	}
	defer s.Pending.End(f)
	if !refused(s.post.Send(ctx, *s.header.Load(), wire.Message{ID: f.ID, Method: wire.MethodPing})) {
		return false
	}
	s.Log.Info("the server has forgotten the session, the conversation is opened anew")
	select {
	case s.Hung <- errForgotten:
	default:
	}
	return true
}

// refused reports whether err is a status of a server that does not know the session.
func refused(err error) bool {
	r := httpconn.StatusErrorOf(err)
	return r != nil && !r.OwnID && (r.Status == http.StatusNotFound || r.Status == http.StatusBadRequest)
}

// Notify implements [protocol.Conn].
func (s *Conn) Notify(method string) { s.NotifyAt(s.post, *s.header.Load(), method) }

// Probe implements [protocol.Conn]. Each session has a stream of its own, so that the failure of
// another session says nothing of this one.
func (s *Conn) Probe(why protocol.Suspicion) {
	if why != protocol.ConnectionFailed {
		s.CheckLiveness(why, s.Ping)
	}
}

// Ping implements [protocol.Conn].
func (s *Conn) Ping(ctx context.Context) error {
	_, err := s.Call(ctx, &call.Call{Method: wire.MethodPing, Back: protocol.NoClient{}})
	if _, refused := err.(*wire.Error); refused { // and not one of the gateway's parser that a *protocol.CallError wraps
		return nil
	}
	return err
}

// Listen implements [protocol.Conn]. The era has no such request.
func (s *Conn) Listen(context.Context, []string) ([]string, error) {
	return nil, httpconn.ErrNoListen
}

// Traits implements [protocol.Conn].
func (s *Conn) Traits() protocol.Traits {
	return protocol.Traits{Sessions: protocol.SessionStream, Asks: true}
}

// read handles the messages of the server until the stream ends.
func (s *Conn) read(r *stream) {
	defer close(s.ended)
	defer r.close()
	for {
		ev, err := r.Next()
		switch {
		case err == nil && ev.IsMessage():
			s.take(ev.Data)
		case err == nil:
			s.Config.Throttle.Received(false)
		case !errors.Is(err, wire.ErrTooLarge):
			s.why = fmt.Errorf("the server's stream ended: %w", err)
			return
		case r.Oversized() == nil:
			s.why = s.Endpoint.TooLarge()
			return
		default:
			s.tooLarge(r.Oversized().ResponseID())
		}
	}
}

// skippedEvent is how many times longer than the limit of a message an event may be that
// fails one call at most. A longer one ends the conversation.
const skippedEvent = 16

// tooLarge handles an event over the size limit. If it has the id of a call, that call fails.
func (s *Conn) tooLarge(id wire.ID) {
	s.Liveness.Received.Add(1)
	if f := s.Pending.Get(id); f != nil {
		s.Pending.Fail(f, s.Endpoint.TooLarge())
	}
	s.RateLog.Warn("an event of the server is over the size limit", zap.Int("limit", s.Endpoint.Max))
}

// take handles one message, or a batch in revisions that have batches.
func (s *Conn) take(data []byte) {
	if !httpconn.IsBatch(data) || wire.Check(data, s.Endpoint.Limits, wire.Lenient) != nil {
		s.takeOne(data)
		return
	}
	for one := range wire.ValueOf(data).Elements() {
		s.takeOne(one.Raw())
	}
}

func (s *Conn) takeOne(data []byte) {
	s.Liveness.Received.Add(1)
	m, err := wire.ParseUpstream(data, s.Endpoint.Limits)
	if err != nil || !m.IsResponse() {
		s.Config.Throttle.Received(m.IsRequest())
	}
	switch {
	case err != nil:
		s.malformed(m.ID, err)
	case m.IsResponse():
		s.Pending.Deliver(m) // a response that nobody waits for is to a cancelled request
	case m.IsRequest():
		s.asks.Serve(s.life, m, s.Config.Addressee(s.Pending, m))
	default:
		s.notified(m)
	}
}

func (s *Conn) notified(m wire.Message) {
	switch wire.MethodOf(m.Method).Scope {
	case wire.ScopeProgressToken:
		s.Config.Progress(s.Pending, m.Params)
		return
	case wire.ScopeRequest:
		s.asks.Cancelled(m.Params)
		return
	}
	if c := s.Config.Addressee(s.Pending, m); c != nil && !wire.MethodOf(m.Method).Standalone() {
		c.Back.Notify(m.Method, m.Params)
		return
	}
	s.Sink.Notified(m.Method, m.Params)
}

// malformed fails the call that a malformed message answers, if its id can be read.
func (s *Conn) malformed(id wire.ID, why error) {
	if f := s.Pending.Get(id); f != nil {
		s.Pending.Fail(f, httpconn.Malformed(why))
		return
	}
	s.RateLog.Warn("a message of the server is malformed", zap.Error(why))
}

// Run implements [protocol.Conn].
func (s *Conn) Run(ctx context.Context) error {
	var why error
	select {
	case <-ctx.Done():
		why = ctx.Err()
		s.EndCalls(s.post, *s.header.Load(), s.Pending.Close(why)) // while the session, which is the stream, is open
	case <-s.ended:
		why = s.why
	case why = <-s.Hung:
	}
	s.shut(why)
	return why
}

// shut closes the stream and returns when all goroutines of the conversation have ended.
func (s *Conn) shut(why error) {
	s.Pending.Close(why)
	s.end()
	<-s.ended
	s.asks.Wait()
	s.Conn.Close()
}
