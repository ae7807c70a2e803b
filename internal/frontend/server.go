package frontend

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// Server is the MCP endpoint. Make one with [New], mount it as an http.Handler
// and let [Server.Run] run beside the HTTP server.
//
// The HTTP server must leave ReadTimeout and WriteTimeout at zero, as both would
// end long calls and streams; the front end sets its own deadlines by
// http.ResponseController, so wrappers of the ResponseWriter need Unwrap.
type Server struct {
	options  Options // its Settings are those from the start, see set
	log      *zap.Logger
	ratelog  *ratelog.Logger // for lines that clients can cause
	settings atomic.Pointer[settings]

	sessions    *session.Table
	listens     subscriptionSet // of modern clients
	peers       peerSet         // over HTTP+SSE and stdio
	sessionless callSet         // calls that belong to no session
	parked      *park.Table

	bodies    *fairshare.Budget // bytes of bodies
	calls     *fairshare.Budget // requests that run
	unsent    *fairshare.Budget // bytes that are being written to clients, small answers left out
	eventLogs *fairshare.Budget // bytes of event logs in memory
	listening *fairshare.Budget // listen streams over HTTP
	seed      maphash.Seed      // of owners

	serverInfo wire.Raw // the member of a result's _meta, name and value
	supported  wire.Raw // the array of all revisions

	draining atomic.Bool // no new calls, GET and listen streams
	stopped  atomic.Bool // no new calls
}

// New makes a server. It panics when o lacks what is required.
func New(o Options) *Server {
	if o.Handler == nil || wire.ValueOf(o.Info).Kind() != '{' {
		panic("frontend: Options need a Handler and an Info object")
	}
	o.setDefaults()
	s := &Server{
		options: o,
		log:     o.Logger,

		ratelog: ratelog.New(o.Logger),
	}
	s.Set(o.Settings)
	s.sessions = session.NewTable(session.TableOptions{
		Max: o.Limits.MaxSessions, Idle: o.Limits.SessionIdle,
		Gauge: o.Metrics.Sessions.WithLabelValues(wire.EraLegacy.String()),
		Ended: o.Events.SessionEnded, LogLevel: o.Events.LogLevel,
	})
	s.parked = park.NewTable(park.Options{
		Sealer: o.Parking.Sealer, Replica: o.Parking.Replica, Permit: o.Parking.Permit,
		MaxPerClient: o.Limits.MaxParked, Max: parkedShares * o.Limits.MaxParked,
		TTL:   func() time.Duration { return s.settings.Load().parkTTL },
		Gauge: o.Metrics.Parked, Logger: s.ratelog,
	})
	s.bodies = fairshare.New(o.Limits.MaxBodies, 0)
	s.calls = fairshare.New(int64(o.Limits.MaxCalls), 0)
	s.unsent = fairshare.New(maxUnsent*int64(o.Limits.MaxMessage), 0)
	s.eventLogs = fairshare.New(maxEventLogs*int64(o.Limits.MaxMessage), 0)
	s.listening = fairshare.New(int64(o.Limits.MaxSessions)+1, 0) // a single client may use the last slot, as with sessions
	s.seed = maphash.MakeSeed()
	s.serverInfo = append(wire.String(wire.MetaServerInfo), ':')
	s.serverInfo = append(s.serverInfo, o.Info...)
	for _, rev := range append(wire.ModernRevisions(), wire.LegacyRevisions()...) {
		s.supported = append(s.supported, ',')
		s.supported = wire.AppendString(s.supported, string(rev))
	}
	s.supported[0] = '['
	s.supported = append(s.supported, ']')
	return s
}

// settings are Settings at work.
type settings struct {
	*origin.Guard
	publicURL string
	parkTTL   time.Duration
}

// Set replaces the settings: for requests that come from now on, and calls that
// are parked from now on.
func (s *Server) Set(to Settings) {
	if to.ParkTTL <= 0 {
		to.ParkTTL = defaultParkTTL
	}
	guard := origin.New(origin.Options{
		Loopback: s.options.LoopbackListener, CheckHost: to.CheckHost,
		Hosts: to.AllowedHosts, Origins: to.AllowedOrigins, PublicURL: to.PublicURL,
	})
	s.settings.Store(&settings{guard, to.PublicURL, to.ParkTTL})
}

// Run expires idle sessions until ctx ends. Then it ends every stream, session
// and call in flight, refuses new ones, and returns nil. The goroutines of
// requests belong to the HTTP server and end soon after. It is called once.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(max(min(s.options.Limits.SessionIdle/4, time.Minute), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.sessions.Expire(now)
		case <-ctx.Done():
			s.Stop()
			s.peers.each(func(c *peer) { c.stop(errStopped) })
			s.parked.Wait()
			return nil
		}
	}
}

// Drain ends all GET and listen streams, the latter with a result, and ends parked
// calls. Other calls go on, and what belongs to them is taken: answers to asks,
// cancellations, pings. New calls and streams are turned away. It may be called
// more than once.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.sessions.EndStreams()
	s.listens.end()
	s.peers.each((*peer).drain)
	s.parked.Drain(errStopped)
}

// Stop ends what Drain lets go on: every session, and every call, with an error
// that says why. It does not wait for the answers to be written. New calls are
// refused. It may be called more than once.
func (s *Server) Stop() {
	s.stopped.Store(true)
	s.Drain()
	s.peers.each(func(c *peer) { c.cancel(errStopped) })
	s.sessions.CloseAll(errStopped)
	s.parked.Stop(errStopped)
	s.sessionless.cancel(errStopped)
}

// Withdraw ends what principals with these keys have open, since what proved them is
// good no more: sessions with their calls and streams, conversations, subscriptions.
// Calls of modern clients that run come to their end. It does not block.
func (s *Server) Revoke(keys []string) {
	gone := func(key string) bool { return slices.Contains(keys, key) }
	s.sessions.CloseOf(gone, errRevoked)
	s.listens.endIf(gone)
	s.peers.each(func(c *peer) {
		if gone(keyOf(c.who)) {
			c.stop(errRevoked)
		}
	})
}

// ListChanged tells all clients that asked for it that lists have changed. It
// does not block.
func (s *Server) ListChanged(tools, prompts, resources bool) {
	s.ListChangedFor(func(*call.Principal, *call.Client) (bool, bool, bool) { return tools, prompts, resources })
}

// ListChangedFor tells the clients that asked for it which lists have changed for
// them. of is called for each client, and must not call the server.
func (s *Server) ListChangedFor(of func(who *call.Principal, client *call.Client) (tools, prompts, resources bool)) {
	each := func(who *call.Principal, client *call.Client) stream.ListChanges {
		var c stream.ListChanges
		tools, prompts, resources := of(who, client)
		if tools {
			c |= stream.ToolsChanged
		}
		if prompts {
			c |= stream.PromptsChanged
		}
		if resources {
			c |= stream.ResourcesChanged
		}
		return c
	}
	s.sessions.NotifyLists(each)
	s.listens.listChanged(each)
}

// ServeHTTP serves the MCP endpoint.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recoverPanic(w)
	timed := setBodyDeadline(w, r)
	who := s.admit(w, r)
	if who == nil {
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.servePost(w, r, who, timed)
	case http.MethodGet:
		s.serveGet(w, r, who)
	case http.MethodDelete:
		s.serveDelete(w, r, who)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE, OPTIONS")
		s.refuse(w, r, &refusal{status: http.StatusMethodNotAllowed, reason: "this HTTP method is not served here"})
	}
}

// admit returns who sent a request. When that is nil the request is answered: it
// was refused, or asked what it may.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) *call.Principal {
	w.Header()["X-Content-Type-Options"] = noSniffing
	set := s.settings.Load()
	if reason := set.Refuses(r); reason != "" {
		s.refuse(w, r, &refusal{status: http.StatusForbidden, reason: reason})
		return nil
	}
	if r.Method == http.MethodOptions {
		set.preflight(w, r)
		return nil
	}
	set.allowCORS(w, r)
	who, err := s.options.Authenticate(r)
	if err != nil {
		s.refuseUnauthenticated(w, r, err)
		return nil
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		if refused := s.skipBody(w, r); refused != nil {
			s.refuse(w, r, refused)
			return nil
		}
	}
	return who
}

// whileProved returns the context of a stream that has no end of its own: it ends
// with the request, and when the proof of who is there is good no more. Whoever
// comes again is asked for proof again.
func untilCredentialsExpire(r *http.Request, who *call.Principal) (context.Context, context.CancelFunc) {
	if who.Expires.IsZero() {
		return r.Context(), func() {}
	}
	return context.WithDeadline(r.Context(), who.Expires)
}

// deny answers a request whose sender has not proved who they are.
func (s *Server) refuseUnauthenticated(w http.ResponseWriter, r *http.Request, err error) {
	challenge, f := "Bearer", &refusal{status: http.StatusUnauthorized, reason: "authentication is required"}
	if d := (Denial)(nil); errors.As(err, &d) {
		challenge, f.status, f.reason = d.Challenge(), d.Status(), d.Public()
	}
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	s.refuse(w, r, f)
}

func (s *Server) servePost(w http.ResponseWriter, r *http.Request, who *call.Principal, timed bool) {
	if refused := checkContentType(r); refused != nil {
		s.refuse(w, r, refused)
		return
	}
	p := &postResponse{s: s, w: w, r: r, ctx: r.Context(), reserved: reservation{s: s, share: s.requestShare(r, who)}}
	defer p.cleanUp()
	if p.accepts = parseAccept(r.Header["Accept"]); !p.accepts.json && !p.accepts.events {
		s.refuse(w, r, &refusal{status: http.StatusNotAcceptable, reason: "Accept must name application/json or text/event-stream, better both"})
		return
	}
	if s.stopped.Load() {
		s.refuseBusy(w, r, wire.ID{}, http.StatusServiceUnavailable, "the gateway is shutting down")
		return
	}
	if refused := p.reserved.acquireCalls(1); refused != nil {
		s.refuse(w, r, refused)
		return
	}
	body, refused := s.readBody(w, r, &p.reserved, timed)
	if refused != nil {
		s.refuse(w, r, refused)
		return
	}
	p.body = body
	if s.serveBody(p, r, who) {
		p.releaseBody()
	}
}

// serveBody serves the body of p. It reports whether the body's bytes are free
// for other use, see leavesBody.
func (s *Server) serveBody(p *postResponse, r *http.Request, who *call.Principal) bool {
	if isArray(p.body.b) {
		s.serveBatch(p, r, who, p.body.b)
		return false
	}
	m, err := wire.Parse(p.body.b, s.options.Limits.JSON)
	if err != nil {
		fault := err.(*wire.Error)
		if name, _ := header(r, wire.HeaderSession); name != "" {
			if sess, unknown := s.sessions.Get(name, keyOf(who)); unknown == nil && sess.FailAsk(responseIn(p.body.b), fault) {
				m.ID = wire.ID{} // which is one of ours, and may be another one of the client's
			}
		}
		s.rejectMessage(p.w, r, m.ID, http.StatusBadRequest, fault)
		return true
	}
	if m.IsRequest() && m.Method != wire.MethodPing && s.draining.Load() {
		s.refuseDraining(p.w, r, m.ID)
		return true
	}
	meta := readMeta(&m)
	if eraOf(r, &m, &meta) == wire.EraModern {
		p.era = wire.EraModern
		return s.serveModern(p, r, who, &m, &meta)
	}
	p.era = wire.EraLegacy
	return s.serveLegacy(p, r, who, &m)
}

// refuse answers a request by its status. The body is a JSON-RPC error, without
// an id where none is known, as the specification allows.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *refusal) {
	s.countRefused("request refused", r, f.status, 0, zap.String("reason", f.reason))
	m := wire.Message{ID: f.id, Error: &wire.Error{Code: wire.CodeInvalidRequest, Message: f.reason}}
	if f == errEncoded {
		w.Header()["Accept-Encoding"] = identity // what would be taken (RFC 9110, section 15.5.16)
	}
	switch f.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable: // a bound is reached, and nothing is wrong with the request
		w.Header().Set("Retry-After", retryAfter)
		m.Error.Code = wire.CodeInternal
	}
	s.writeJSON(w, 0, f.status, m.Append(nil))
}

// needsSession refuses a GET or DELETE without a session: only legacy sessions
// know these methods.
func (s *Server) refuseWithoutSession(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "POST")
	s.refuse(w, r, &refusal{status: http.StatusMethodNotAllowed, reason: "this HTTP method is served for sessions only"})
}

// busy refuses a request because a bound is reached, or the end has come.
func (s *Server) refuseBusy(w http.ResponseWriter, r *http.Request, id wire.ID, status int, reason string) {
	s.refuse(w, r, &refusal{status, reason, id})
}

// turnAway answers a new call while the gateway drains: it was not begun, and
// whoever sends it again on a new connection may reach another gateway.
func (s *Server) refuseDraining(w http.ResponseWriter, r *http.Request, id wire.ID) {
	w.Header().Set("Retry-After", retryAfter)
	w.Header().Set("Connection", "close")
	s.rejectMessage(w, r, id, http.StatusServiceUnavailable, errDraining)
}

// fault answers a message that breaks the protocol. What the error says may
// quote the message, so it goes to the client and not into the log.
func (s *Server) rejectMessage(w http.ResponseWriter, r *http.Request, id wire.ID, status int, e *wire.Error) {
	s.countRefused("protocol fault", r, status, e.Code, zap.Int64("code", e.Code), zap.String("mcp_method", clip(r.Header.Get(wire.HeaderMethod))))
	m := wire.Message{ID: id, Error: e}
	s.writeJSON(w, 0, status, m.Append(nil))
}

// accepted answers messages that want no answer.
func writeAccepted(w http.ResponseWriter) { writeStatus(w, http.StatusAccepted) }

// bare answers by a status alone.
func writeStatus(w http.ResponseWriter, status int) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
}

// recovered keeps a fault of ours from ending the process.
func (s *Server) recoverPanic(w http.ResponseWriter) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.logPanic(p)
		m := wire.Message{Error: errInternal}
		s.writeJSON(w, 0, http.StatusInternalServerError, m.Append(nil))
	}
}

func (s *Server) logPanic(p any) {
	s.ratelog.Error("panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

// clip makes a client's text fit for the log: short, and without control
// characters.
func clip(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, plaintext.Clip(s, 64))
}
