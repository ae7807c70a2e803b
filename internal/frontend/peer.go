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

// Errors for messages that a peer cannot accept.
var (
	errNotInitialized = wire.Errorf(wire.CodeInvalidRequest, "invalid request: the first request must be initialize")
	errNoRevision     = wire.Errorf(wire.CodeInvalidParams, "invalid params: _meta lacks %q, and no initialize has been sent", wire.MetaProtocolVersion)
	errInitialized    = wire.Errorf(wire.CodeInvalidRequest, "invalid request: initialize was sent already")
	errShuttingDown   = wire.Errorf(wire.CodeInternal, "%s", errStopped)
	errExpiresSooner  = wire.Errorf(wire.CodeInvalidRequest, "this session ends because its credentials expire sooner than before: begin a new one")
	errChannelGone    = wire.Errorf(wire.CodeInvalidRequest, "%s with its stream: begin a new one", session.ErrEnded)
	errPeerBusy       = wire.Errorf(wire.CodeInternal, "too many requests of this client are running")
	errGatewayBusy    = wire.Errorf(wire.CodeInternal, "%s", errExhausted.reason)
	errNoBatch        = wire.Errorf(wire.CodeInvalidRequest, "invalid request: batches are for sessions of revision %s only, and have between 1 and %d messages", wire.Rev20250326, maxBatch)
)

// peer is one client with a single channel for all messages to it, over HTTP+SSE or
// stdio. It lives as long as the channel. Each request runs on a separate goroutine.
type peer struct {
	s            *Server
	id           string          // unguessable, see newPeerID
	remote       string          // the client's address, "" on stdio
	share        fairshare.Share // for answers that the client has not read; not used on stdio
	principal    *call.Principal
	stream       *stream.Stream
	hasSlot      bool // it has reserved the slot of a session
	servesModern bool // it serves requests of modern clients too
	// ctx is the context of all calls.
	ctx    context.Context
	cancel context.CancelCauseFunc

	requests sync.WaitGroup

	mu       sync.Mutex
	sess     *session.Session // nil before initialize
	running  int
	ending   *wire.Error               // why it takes no more requests, or nil; the stream ends with the last running request
	inflight map[wire.ID]*exchange     // requests of a modern client
	listens  map[wire.ID]*subscription // its open subscriptions
}

// newPeer returns a peer. Its calls have the values of ctx. The caller calls close when
// the channel is gone.
func (s *Server) newPeer(ctx context.Context, principal *call.Principal, st *stream.Stream) *peer {
	p := &peer{
		s: s, id: s.newPeerID(), principal: principal, stream: st,
		inflight: make(map[wire.ID]*exchange), listens: make(map[wire.ID]*subscription),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // only cancel ends it, so that the cause is known
	return p
}

// receive handles one message, or a batch. The peer owns data from then on. A request
// is answered after receive has returned, except initialize, so that the client may
// send the next message without waiting. If the message is not accepted, receive
// returns the error, and the id of the request if it has one. A running request takes
// over what h holds.
func (p *peer) receive(data []byte, request string, h *reservation) (wire.ID, *wire.Error) {
	from := sender{principal: p.principal, remote: p.remote, request: request}
	if isArray(data) {
		return wire.ID{}, p.receiveBatch(data, from, h)
	}
	m, err := wire.Parse(data, p.s.options.Limits.JSON)
	if err != nil {
		invalid := err.(*wire.Error)
		if p.s.failAsk(p.session(), responseIn(data), invalid) {
			m.ID = wire.ID{} // the id of an ask of ours, which the client may use for a request
		}
		return m.ID, invalid
	}
	if m.IsRequest() {
		return m.ID, p.receiveRequest(&m, from, h)
	}
	sess := p.session()
	p.s.receive(sess, &m)
	if id, ok := session.CancelledRequest(&m); ok && p.servesModern {
		p.cancelRequest(id)
	}
	return m.ID, nil
}

func (p *peer) session() *session.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sess
}

// receiveRequest handles a request. Its metadata determine the era if the peer serves
// modern requests, otherwise the era is legacy.
func (p *peer) receiveRequest(m *wire.Message, from sender, h *reservation) *wire.Error {
	meta := readMeta(m)
	sess := p.session()
	switch {
	case beginsSession(m, &meta):
		return p.initialize(m, from)
	case p.servesModern && meta.isModern():
		return p.modernRequest(m, &meta, from, h)
	case sess == nil && m.Method == wire.MethodPing: // allowed before initialize
		x := p.s.legacyCall(p.ctx, p.stream, nil, &call.Client{Key: p.id, Sessionless: true, Revision: wire.LatestLegacy}, from, m)
		return p.startRequest(x, x.answerLegacy, h)
	case sess == nil && p.servesModern:
		return errNoRevision
	case sess == nil:
		return errNotInitialized
	}
	x := p.s.legacyCall(p.ctx, p.stream, sess, sess.Client, from, m)
	if err := x.begin(); err != nil {
		x.Cancel(nil)
		return invalidRequest(err)
	}
	refused := p.startRequest(x, x.answerLegacy, h)
	if refused != nil {
		x.end()
	}
	return refused
}

// startRequest answers a request on a separate goroutine, with the answer of by.
func (p *peer) startRequest(x *exchange, by func() answer, h *reservation) *wire.Error {
	return p.start(func() {
		if msg := x.answerAlone(by); msg != nil {
			p.respond(msg)
		}
	}, x, h)
}

// respond sends an answer. It waits until the client has caught up, but not for long if
// the client's unread answers exceed its share. Stdio has only one client, which may
// take as long as it likes.
func (p *peer) respond(msg []byte) {
	limit := time.Duration(0)
	if n := int64(len(msg)); !p.stream.DropWhenBehind && n > freeBody {
		if p.s.unsent.Acquire(p.share, n) == nil {
			defer p.s.unsent.Release(p.share, n)
		} else {
			limit = writeHurried
		}
	}
	p.stream.SendWait(msg, limit)
}

// start runs f, the request of x, on a goroutine. It returns an error if the peer ends or
// too many requests run.
func (p *peer) start(f func(), x *exchange, h *reservation) *wire.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	why := p.ending
	switch {
	case why != nil:
	case p.running >= maxPeerCalls:
		why = errPeerBusy
	default:
		why = h.acquirePeerCalls(1)
	}
	if why != nil {
		x.Cancel(nil)
		return why
	}
	p.running++
	kept := *h
	x.reserved, *h = &kept, reservation{}
	p.requests.Go(func() {
		defer p.requestDone()
		defer kept.release()
		f()
	})
	return nil
}

// requestDone ends the stream after the last request of a peer that drains.
func (p *peer) requestDone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running--; p.ending != nil && p.running == 0 {
		p.stream.End()
	}
}

// initialize opens the session. Unlike other requests it is answered before receive
// returns.
func (p *peer) initialize(m *wire.Message, from sender) *wire.Error {
	if p.session() != nil {
		return errInitialized
	}
	if !p.s.serves(p.principal.Profile, wire.EraLegacy) {
		return p.s.unsupportedLegacy(m, p.principal.Profile)
	}
	client, invalid := newLegacyClient(m)
	if invalid != nil {
		return invalid
	}
	client.Key = session.NewID()
	if p.servesModern {
		client.Key = p.id // requests of both eras belong to one client
	}
	x := p.s.legacyCall(p.ctx, p.stream, nil, client, from, m)
	defer x.Cancel(nil)
	a, sess := x.openSession(session.Config{Claims: session.Claims{Client: client}, Tied: true, Counted: !p.hasSlot})
	if sess != nil {
		if why := p.setSession(sess); why != nil {
			p.s.sessions.Close(sess, session.ErrEnded)
			return why
		}
	}
	if !a.noResponse {
		p.respond(x.message(a))
	}
	if sess != nil {
		// An error means that the session has ended, and the stream with it.
		_, _ = sess.Attach(p.stream, func() (*stream.Conn, error) { return nil, nil })
	}
	return nil
}

// setSession makes sess the session of the peer. It returns an error if the peer has a
// session already, or if the peer ends: then nothing would end the session later.
func (p *peer) setSession(sess *session.Session) *wire.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ending != nil:
		return p.ending
	case p.sess != nil:
		return errInitialized
	}
	p.sess = sess
	return nil
}

// receiveBatch handles an array of messages, which only revision 2025-03-26 has
// (2025-03-26, basic, "Batching"). The answers form one array.
func (p *peer) receiveBatch(data []byte, from sender, h *reservation) *wire.Error {
	if err := wire.Check(data, p.s.options.Limits.JSON, wire.Strict); err != nil {
		return wire.Errorf(wire.CodeParse, "parse error: %s", err)
	}
	sess := p.session()
	parts, _ := wire.Split(data, maxBatch)
	if sess == nil || !sess.Client.Revision.HasBatches() || len(parts) == 0 || len(parts) > maxBatch {
		return errNoBatch
	}
	if why := h.acquirePeerCalls(len(parts) - 1); why != nil {
		return why
	}
	whole := p.s.newExchange(p.ctx, p.stream, from, wire.ID{})
	return p.start(func() {
		defer whole.Cancel(nil)
		answers, _ := p.s.answerBatch(sess, from, parts, p.s.options.Limits.JSON, func(from sender, m *wire.Message) *exchange {
			return p.s.legacyCall(&whole.scope, p.stream, sess, sess.Client, from, m)
		})
		if len(answers) > 0 {
			p.respond(joinMessages(answers))
		}
	}, whole, h)
}

// drain refuses further requests with an error, and ends the stream when all running requests have
// been answered. The error of the first drain counts.
func (p *peer) drain(why *wire.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(why)
	if p.running == 0 {
		p.stream.End()
	}
}

// end has requests refused. The caller holds mu.
func (p *peer) end(why *wire.Error) {
	if p.ending == nil {
		p.ending = why
	}
}

// stop ends all calls, and the stream.
func (p *peer) stop(cause error) {
	p.cancel(cause)
	p.stream.End()
}

// close ends the session, the calls and the subscriptions of a peer whose channel is
// gone. It returns when all requests have ended.
func (p *peer) close() {
	p.mu.Lock()
	p.end(errChannelGone)
	sess := p.sess
	listens := p.listens
	p.listens = nil
	p.mu.Unlock()
	for _, sub := range listens {
		p.s.listens.remove(sub)
	}
	p.cancel(session.ErrEnded)
	p.stream.End()
	if sess != nil {
		p.s.sessions.Close(sess, session.ErrEnded)
	}
	p.requests.Wait()
}

// beginsSession reports whether a message is an initialize that opens a legacy session.
// An initialize without protocolVersion and with modern metadata is a modern request
// for a method that was removed.
func beginsSession(m *wire.Message, meta *requestMeta) bool {
	return m.Method == wire.MethodInitialize && (!meta.isModern() || wire.ValueOf(m.Params).Get("protocolVersion").Exists())
}

// peerSet is the set of connected peers. The zero value is an empty set.
type peerSet struct {
	mu   sync.Mutex
	byID map[string]*peer
}

func (s *peerSet) add(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*peer)
	}
	s.byID[p.id] = p
}

// find returns the peer with this id, nil for none.
func (s *peerSet) find(id string) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// get returns the principal's peer with this id. The error is that of [session.Table.Get].
func (s *peerSet) get(id string, principal *call.Principal) (*peer, error) {
	p := s.find(id)
	if p == nil {
		return nil, session.ErrUnknown
	}
	if err := session.CheckOwner(p.principal, principal); err != nil {
		return nil, err
	}
	return p, nil
}

func (s *peerSet) remove(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, p.id)
}

// each calls f for all peers. f must not block.
func (s *peerSet) each(f func(*peer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.byID {
		f(p)
	}
}
