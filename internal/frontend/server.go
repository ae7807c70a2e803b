package frontend

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// Server is the MCP endpoint. Make one with [New], mount it as an http.Handler, and
// run [Server.Run] beside the HTTP server.
//
// The HTTP server must leave ReadTimeout and WriteTimeout at zero, because both would
// end long calls and streams. The front end sets its own deadlines with
// http.ResponseController, so wrappers of the ResponseWriter need an Unwrap method.
type Server struct {
	options  Options // as given to New; settings has the current Settings
	log      *zap.Logger
	ratelog  *ratelog.Logger // for lines that clients can cause
	sums     *ratelog.Logger // for lines of drainingStream, which repeat the first one
	settings atomic.Pointer[settings]

	sessions    *session.Table
	sessionIDs  *session.IDs
	listens     subscriptionSet // listen streams of modern clients
	peers       peerSet         // clients over HTTP+SSE and stdio
	clients     clientCache     // modern clients over HTTP
	sessionless callSet         // running calls that belong to no session
	parked      *park.Table

	bodies    *fairshare.Budget // bytes of bodies
	calls     *fairshare.Budget // running requests
	unsent    *fairshare.Budget // bytes of answers that clients are still reading, except small ones
	eventLogs *fairshare.Budget // bytes of event logs in memory
	listening *fairshare.Budget // listen streams over HTTP
	seed      maphash.Seed      // for shares and keys of clients

	tasks    *tasks
	restores chan struct{} // one for each session whose subscriptions are restored
	outside  outsideLimits

	serverInfo wire.Raw // member of a result's _meta, with its name
	supported  supported

	draining   atomic.Bool     // no new calls, GET streams and listen streams
	drained    context.Context // ends with Drain
	endStreams context.CancelFunc
	stopped    atomic.Bool // no new calls, and running calls have ended
}

// New returns a server. It panics if o lacks a required field.
func New(o Options) *Server {
	if o.Handler == nil || wire.ValueOf(o.Info).Kind() != '{' {
		panic("frontend: Options need a Handler and an Info object")
	}
	o.setDefaults()
	s := &Server{
		options: o,
		log:     o.Logger,
		ratelog: ratelog.New(o.Logger),
		sums:    ratelog.NewSums(o.Logger),
		seed:    maphash.MakeSeed(),

		tasks:    newTasks(),
		restores: make(chan struct{}, maxRestores),
		outside:  newOutsideLimits(),
	}
	s.drained, s.endStreams = context.WithCancel(context.Background())
	s.Set(o.Settings)
	s.sessions = session.NewTable(session.TableOptions{
		Max: o.Limits.MaxSessions, Idle: o.Limits.SessionIdle, Kept: o.Sessions.Shared != nil,
		Gauge: o.Metrics.Sessions.WithLabelValues(wire.EraLegacy.String()),
		Ended: o.Events.SessionEnded, LogLevel: o.Events.LogLevel,
	})
	s.clients.shared = clientsKey(o.Sessions.Keys)
	s.sessionIDs = session.NewIDs(o.Sessions.Keys, o.Limits.SessionIdle)
	s.parked = park.NewTable(park.Options{
		Sealer: o.Parking.Sealer, Replica: o.Parking.Replica, Permit: o.Parking.Permit, Pass: o.Parking.Pass,
		MaxPerClient: o.Limits.MaxParked, Max: parkedShares * o.Limits.MaxParked,
		TTL:   func() time.Duration { return s.settings.Load().ParkTTL },
		Gauge: o.Metrics.Parked, Logger: s.ratelog,
	})
	s.bodies = fairshare.New(o.Limits.MaxBodies, 0)
	s.calls = fairshare.New(int64(o.Limits.MaxCalls), 0)
	s.unsent = fairshare.New(maxUnsent*int64(o.Limits.MaxMessage), 0)
	s.eventLogs = fairshare.New(maxEventLogs*int64(o.Limits.MaxMessage), 0)
	s.listening = fairshare.New(int64(o.Limits.MaxSessions)+1, 0) // a single client may use the last slot, as with sessions
	s.serverInfo = append(wire.String(wire.MetaServerInfo), ':')
	s.serverInfo = append(s.serverInfo, o.Info...)
	s.supported = newSupported()
	return s
}

// settings are the current Settings, prepared for use.
type settings struct {
	*origin.Guard
	Settings
}

// Set replaces the settings, for later requests and for calls that are parked later.
func (s *Server) Set(to Settings) {
	if to.ParkTTL <= 0 {
		to.ParkTTL = defaultParkTTL
	}
	guard := origin.New(origin.Options{
		Loopback: s.options.LoopbackListener, CheckHost: to.CheckHost,
		Hosts: to.AllowedHosts, MoreHosts: to.ProfileHosts, Origins: to.AllowedOrigins, PublicURL: to.PublicURL,
	})
	before := s.settings.Swap(&settings{guard, to})
	for profile, only := range to.Eras {
		if before != nil && before.Eras[profile] != only {
			s.endEra(profile, only)
		}
	}
}

// endEra ends the sessions and streams of clients of the other era in a profile.
func (s *Server) endEra(profile string, only wire.Era) {
	match := func(p *call.Principal) bool { return p.Profile == profile }
	if only == wire.EraLegacy {
		s.listens.endIf(match)
		return
	}
	s.shareEnds(s.sessions.CloseOf(match, errNoEra))
	s.peers.each(func(p *peer) {
		if !p.servesModern && match(p.principal) {
			p.stop(errNoEra)
		}
	})
}

// Run expires idle sessions until ctx ends. Then it ends all streams, sessions and
// calls, refuses new ones, and returns nil. The goroutines of requests belong to the
// HTTP server and end soon after. Run is called once.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(max(min(s.options.Limits.SessionIdle/4, time.Minute), time.Millisecond))
	defer tick.Stop()
	renew, stopRenewing := s.renewals()
	defer stopRenewing()
	for {
		select {
		case now := <-tick.C:
			s.sessions.Expire(now)
		case <-renew:
			s.tasks.start(s.renewStates)
		case <-ctx.Done():
			s.Stop()
			s.peers.each(func(p *peer) { p.stop(errStopped) })
			s.parked.Wait()
			s.tasks.end()
			return nil
		}
	}
}

// Drain ends all GET streams, listen streams and parked calls, and refuses new calls
// and streams. Listen streams end with a result. Other calls continue, so answers to
// asks, cancellations and pings are still accepted. Drain may be called more than
// once.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.endStreams()
	s.sessions.EndStreams()
	s.listens.end()
	s.peers.each(func(p *peer) { p.drain(errShuttingDown) })
	s.parked.Drain(errStopped)
}

// Running returns how many requests run.
func (s *Server) Running() int64 { return s.calls.Held() }

// Stop drains the server, and ends all sessions and calls. The calls are answered by
// an error that says why. Stop does not wait until the answers are written. It may be
// called more than once.
func (s *Server) Stop() {
	s.stopped.Store(true)
	s.Drain()
	s.tasks.cancel()
	s.peers.each(func(p *peer) { p.cancel(errStopped) })
	s.sessions.CloseAll(errStopped)
	s.parked.Stop(errStopped)
	s.sessionless.cancel(errStopped)
}

// Revoke ends the sessions, peers and listen streams that principals that match have
// begun, in all profiles, because their credentials were revoked. Running calls of modern
// clients continue. Revoke does not block.
func (s *Server) Revoke(match func(*call.Principal) bool) { s.endOf(match, errRevoked) }

// ChangeRights is Revoke for principals whose credentials are still valid, with other
// rights: a stream without a later request would keep the old ones.
func (s *Server) ChangeRights(match func(*call.Principal) bool) { s.endOf(match, errRights) }

// EndStreams ends listen streams and peers of principals that match, because their
// credentials expire sooner than when these began. Peers end when their running requests
// are answered. It also ends the connections of GET streams in sessions of owners that
// match, which may have begun with other credentials than the session; clients resume
// them. Sessions over streamable HTTP and all calls continue. EndStreams does not block.
func (s *Server) EndStreams(match, owners func(*call.Principal) bool) {
	s.sessions.Disconnect(owners)
	s.listens.endIf(match)
	s.peers.each(func(p *peer) {
		if match(p.principal) {
			p.drain(errExpiresSooner)
		}
	})
}

// EndProfiles ends the sessions, peers and listen streams in each profile that matches,
// because the configuration no longer has it. Running calls of modern clients continue.
// EndProfiles does not block.
func (s *Server) EndProfiles(match func(profile string) bool) {
	s.endOf(func(p *call.Principal) bool { return match(p.Profile) }, errNoProfile)
}

// endOf ends the sessions, peers and listen streams of the principals that match.
func (s *Server) endOf(match func(*call.Principal) bool, cause error) {
	s.shareEnds(s.sessions.CloseOf(match, cause))
	s.listens.endIf(match)
	s.peers.each(func(p *peer) {
		if match(p.principal) {
			p.stop(cause)
		}
	})
}

// ListChanged tells all clients that want to know that lists have changed. It does
// not block.
func (s *Server) ListChanged(tools, prompts, resources bool) {
	s.ListChangedFor(func(*call.Principal, *call.Client) (bool, bool, bool) { return tools, prompts, resources })
}

// ListChangedFor tells the clients that want to know which lists have changed for
// them. changed is called for each client, and must not call the server.
func (s *Server) ListChangedFor(changed func(principal *call.Principal, client *call.Client) (tools, prompts, resources bool)) {
	each := func(principal *call.Principal, client *call.Client) stream.ListChanges {
		var c stream.ListChanges
		tools, prompts, resources := changed(principal, client)
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
