package frontend

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Why a conversation does not take a message.
var (
	errNotInitialized = wire.Errorf(wire.CodeInvalidRequest, "invalid request: the conversation begins with initialize")
	errNoRevision     = wire.Errorf(wire.CodeInvalidParams, "invalid params: _meta lacks %q, and no initialize has been sent", wire.MetaProtocolVersion)
	errInitialized    = wire.Errorf(wire.CodeInvalidRequest, "invalid request: the conversation has begun already")
	errShuttingDown   = wire.Errorf(wire.CodeInternal, "%s", errStopped)
	errPeerBusy       = wire.Errorf(wire.CodeInternal, "too many requests of this client are running")
	errGatewayBusy    = wire.Errorf(wire.CodeInternal, "%s", errExhausted.reason)
	errNoBatch        = wire.Errorf(wire.CodeInvalidRequest, "invalid request: batches are for sessions of revision %s only, and have between 1 and %d messages", wire.Rev20250326, maxBatch)
)

// conversation is one client on a channel that carries all messages to it, for
// as long as the channel lasts: HTTP+SSE, or stdio. Requests run on goroutines of
// their own, and their answers go where everything goes.
type peer struct {
	s            *Server
	id           string          // unguessable
	remote       string          // the address of the client, "" for one on a pipe
	share        fairshare.Share // whose share what is sent to it counts for, unless it is on a pipe
	who          *call.Principal
	stream       *stream.Stream
	hasSlot      bool // it has the place of a session
	servesModern bool // requests of modern clients are served too
	// Calls end with ctx.
	ctx    context.Context
	cancel context.CancelCauseFunc

	requests sync.WaitGroup

	mu       sync.Mutex
	sess     *session.Session // nil before initialize
	running  int
	ending   bool                      // no more requests; the stream ends with the last that runs
	inflight map[wire.ID]*exchange     // requests of a modern client
	listens  map[wire.ID]*subscription // its subscriptions
}

// newConversation makes a conversation. Its calls have what ctx carries, and end
// with it when whoever made it calls close.
func (s *Server) newPeer(ctx context.Context, who *call.Principal, st *stream.Stream) *peer {
	c := &peer{
		s: s, id: session.NewID(), who: who, stream: st,
		inflight: make(map[wire.ID]*exchange), listens: make(map[wire.ID]*subscription),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // so that there is one cause
	return c
}

// take takes one message, or a batch of them, in. The bytes belong to the
// conversation from then on. It returns before requests are answered, save
// initialize, so that a client may send what follows without waiting. When the
// message is not taken the error says why, and the id is that of the message if
// it is a request that has one. What h holds passes to what runs.
func (c *peer) receive(data []byte, h *reservation) (wire.ID, *wire.Error) {
	if isArray(data) {
		return wire.ID{}, c.receiveBatch(data, h)
	}
	m, err := wire.Parse(data, c.s.options.Limits.JSON)
	if err != nil {
		fault := err.(*wire.Error)
		if c.session().FailAsk(responseIn(data), fault) {
			m.ID = wire.ID{} // which is one of ours, and may be another one of the client's
		}
		return m.ID, fault
	}
	if m.IsRequest() {
		return m.ID, c.receiveRequest(&m, h)
	}
	sess := c.session()
	sess.Receive(&m)
	if id, ok := session.CancelledRequest(&m); ok && c.servesModern {
		c.cancelRequest(id)
	}
	return m.ID, nil
}

func (c *peer) session() *session.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sess
}

// request takes a request in. Its era is that of its metadata where modern
// requests are served, else that of the session.
func (c *peer) receiveRequest(m *wire.Message, h *reservation) *wire.Error {
	meta := readMeta(m)
	sess := c.session()
	switch {
	case beginsSession(m, &meta):
		return c.initialize(m)
	case c.servesModern && meta.isModern():
		return c.modernRequest(m, &meta, h)
	case sess == nil && m.Method == wire.MethodPing: // which is allowed before initialize
		x := c.s.legacyCall(c.ctx, c.stream, nil, &call.Client{Key: c.id, Sessionless: true, Revision: wire.LatestLegacy}, c.who, m)
		return c.startRequest(x, x.answer, h)
	case sess == nil && c.servesModern:
		return errNoRevision
	case sess == nil:
		return errNotInitialized
	}
	x := c.withShare(c.s.legacyCall(c.ctx, c.stream, sess, sess.Client, c.who, m))
	if err := x.begin(); err != nil {
		x.Cancel(nil)
		return invalidRequest(err)
	}
	fault := c.startRequest(x, x.answer, h)
	if fault != nil {
		x.end()
	}
	return fault
}

// owned says whose share a request takes.
func (c *peer) withShare(x *exchange) *exchange {
	x.call.ShareKey = c.s.callShare(c.remote, c.who, x.call.Client)
	return x
}

// start answers a request on a goroutine of its own.
func (c *peer) startRequest(x *exchange, by func() answer, h *reservation) *wire.Error {
	return c.start(func() {
		if msg := x.answerAlone(by); msg != nil {
			c.respond(msg)
		}
	}, x, h)
}

// answer puts an answer in, which waits until the client has caught up: for long only
// while what waits for it is no more than is left for others. On a pipe there are none.
func (c *peer) respond(msg []byte) {
	patience := time.Duration(0)
	if n := int64(len(msg)); !c.stream.DropWhenBehind && n > freeBody {
		if c.s.unsent.Acquire(c.share, n) == nil {
			defer c.s.unsent.Release(c.share, n)
		} else {
			patience = writeHurried
		}
	}
	c.stream.SendWait(msg, patience)
}

// run runs f beside the conversation, unless that is ending or too much runs.
func (c *peer) start(f func(), x *exchange, h *reservation) *wire.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	why := errShuttingDown
	switch {
	case c.ending:
	case c.running >= maxPeerCalls:
		why = errPeerBusy
	default:
		why = h.acquirePeerCalls(1)
	}
	if why != nil {
		x.Cancel(nil)
		return why
	}
	c.running++
	kept := *h
	x.reserved, *h = &kept, reservation{}
	c.requests.Go(func() {
		defer c.requestDone()
		defer kept.release()
		f()
	})
	return nil
}

func (c *peer) requestDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.ending && c.running == 0 {
		c.stream.End()
	}
}

// initialize opens the session. Whoever calls take waits for it.
func (c *peer) initialize(m *wire.Message) *wire.Error {
	if c.session() != nil {
		return errInitialized
	}
	client, fault := newLegacyClient(m)
	if fault != nil {
		return fault
	}
	if c.servesModern {
		client.Key = c.id // it is one client, whatever era its requests are of
	}
	x := c.s.legacyCall(c.ctx, c.stream, nil, client, c.who, m)
	defer x.Cancel(nil)
	a, sess := x.openSession(true, !c.hasSlot, 0)
	if sess != nil {
		if why := c.setSession(sess); why != nil {
			c.s.sessions.Close(sess, session.ErrEnded)
			return why
		}
	}
	if !a.noResponse {
		c.respond(x.appendAnswer(nil, a))
	}
	if sess != nil {
		// An error means that the session has ended, and then the stream has too.
		_, _ = sess.Attach(c.stream, func() (*stream.Conn, error) { return nil, nil })
	}
	return nil
}

// adopt makes sess the session of the conversation. The error says why not: there is
// one, or the conversation ends, and then nothing would ever end the session.
func (c *peer) setSession(sess *session.Session) *wire.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ending:
		return errShuttingDown
	case c.sess != nil:
		return errInitialized
	}
	c.sess = sess
	return nil
}

// takeBatch takes an array of messages in, which only sessions of 2025-03-26
// know (2025-03-26, basic, "Batching"). Its answers come as one array.
func (c *peer) receiveBatch(data []byte, h *reservation) *wire.Error {
	if err := wire.Check(data, c.s.options.Limits.JSON, wire.Strict); err != nil {
		return wire.Errorf(wire.CodeParse, "parse error: %s", err)
	}
	sess := c.session()
	parts, _ := wire.Split(data, maxBatch)
	if sess == nil || !sess.Client.Revision.HasBatches() || len(parts) == 0 || len(parts) > maxBatch {
		return errNoBatch
	}
	if why := h.acquirePeerCalls(len(parts) - 1); why != nil {
		return why
	}
	whole := c.s.newExchange(c.ctx, c.stream, wire.ID{})
	return c.start(func() {
		defer whole.Cancel(nil)
		answers, _ := answerBatch(sess, parts, c.s.options.Limits.JSON, func(m *wire.Message) *exchange {
			return c.withShare(c.s.legacyCall(whole.ctx, c.stream, sess, sess.Client, c.who, m))
		})
		if len(answers) > 0 {
			c.respond(joinMessages(answers))
		}
	}, whole, h)
}

// drain takes no more requests, and ends the stream when those that run have
// been answered.
func (c *peer) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	if c.running == 0 {
		c.stream.End()
	}
}

// stop ends the conversation at once.
func (c *peer) stop(cause error) {
	c.cancel(cause)
	c.stream.End()
}

// close ends what is left of the conversation when its channel is gone, and
// returns when nothing of it runs.
func (c *peer) close() {
	c.mu.Lock()
	c.ending = true
	sess := c.sess
	listens := c.listens
	c.listens = nil
	c.mu.Unlock()
	for _, sub := range listens {
		c.s.listens.remove(sub)
	}
	c.cancel(session.ErrEnded)
	c.stream.End()
	if sess != nil {
		c.s.sessions.Close(sess, session.ErrEnded)
	}
	c.requests.Wait()
}

// beginsSession reports whether a message is an initialize that opens a legacy
// session. One that lacks the version to negotiate and has modern metadata is a
// modern request for a method that was removed.
func beginsSession(m *wire.Message, meta *requestMeta) bool {
	return m.Method == wire.MethodInitialize && (!meta.isModern() || wire.ValueOf(m.Params).Get("protocolVersion").Exists())
}

// conversationSet is the set of conversations that are open. The zero set is
// ready for use.
type peerSet struct {
	mu   sync.Mutex
	byID map[string]*peer
}

// add takes a conversation in.
func (s *peerSet) add(c *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*peer)
	}
	s.byID[c.id] = c
}

// get returns the principal's conversation with this id. The error says why there
// is none, as for sessions.
func (s *peerSet) get(id string, who *call.Principal) (*peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.byID[id]; {
	case c == nil:
		return nil, session.ErrUnknown
	case keyOf(c.who) != keyOf(who):
		return nil, session.ErrForeign
	default:
		return c, nil
	}
}

func (s *peerSet) remove(c *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, c.id)
}

// each calls f, which must not wait for anybody, for all conversations.
func (s *peerSet) each(f func(*peer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.byID {
		f(c)
	}
}
