package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// away is a network in front of a server that can be cut.
type away struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (a *away) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return nil, errors.New("cut")
	}
	c, err := a.dial(ctx, network, address)
	if err == nil {
		a.conns = append(a.conns, c)
	}
	return c, err
}

// set cuts the network, or repairs it.
func (a *away) set(cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = cut
	for _, c := range a.conns {
		c.Close()
	}
	a.conns = nil
}

const (
	// anything is what the catalog session declares: such clients use it.
	anything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`
	nothing  = `{}`
)

// ofCatalog reports whether a message initializes the catalog session.
func ofCatalog(m wire.Message) bool {
	return bytes.Equal(wire.ValueOf(m.Params).Get("capabilities").Raw(), wire.Raw(anything))
}

// attempts returns how often the catalog session has tried to connect to s.
func attempts(s *script) (n int) {
	for _, r := range s.got(wire.MethodInitialize) {
		if ofCatalog(wire.Message{Params: r.params}) {
			n++
		}
	}
	return n
}

// startAway runs sessions with a legacy server behind a network that can be cut.
func startAway(t *testing.T, s *script, change ...func(*Options)) (*sessionsRig, *away) {
	t.Helper()
	if s.on == nil {
		s.on = map[string]on{}
	}
	if s.on[wire.MethodToolsList] == nil {
		s.on[wire.MethodToolsList] = lists[wire.MethodToolsList]
	}
	web := serveInMemory(t, s)
	a := &away{dial: web.DialContext}
	web.DialContext = a.DialContext
	h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
	o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Server: Server{HTTP: web, Era: wire.EraLegacy}, Hooks: Hooks{Observer: h.watch}}
	for _, c := range change {
		c(&o)
	}
	h.run(t, o)
	synctest.Wait() // calls find the conversation
	return h, a
}

// lose cuts the network, and waits until the catalog session has noticed it.
func (a *away) lose(t *testing.T, h *sessionsRig) {
	a.set(true)
	h.catalogSession.Probe(protocol.ConnectionFailed)
	h.watch.wait(t, isDown)
}

// awaitAttempt waits for the next attempt of the catalog session to connect to s.
func awaitAttempt(t *testing.T, s *script) {
	t.Helper()
	before, end := attempts(s), time.Now().Add(time.Hour)
	for attempts(s) == before {
		if time.Sleep(time.Millisecond); time.Now().After(end) {
			t.Fatal("the catalog session does not try to connect")
		}
	}
}

func modernWith(capabilities string) *call.Call {
	c := modernCallBy("carl")
	c.Client.Capabilities = wire.Raw(capabilities)
	return c
}

// The first call to a server that is back makes the upstream ready at once, whichever session it uses, and whether
// that session has noticed that the server was away or not.
func TestCallMakesTheUpstreamReady(t *testing.T) {
	for name, tc := range map[string]struct {
		sharing Sharing
		call    *call.Call
	}{
		"legacy client, catalog session":   {Shared, legacyCall("ann", anything, &upstreamtest.Peer{})},
		"modern client, catalog session":   {Shared, modernWith(anything)},
		"legacy client, session for a set": {Shared, legacyCall("ann", nothing, &upstreamtest.Peer{})},
		"modern client, session for a set": {Shared, modernWith(nothing)},
		"session of a client":              {PerClient, legacyCall("ann", nothing, &upstreamtest.Peer{})},
		"session of a principal":           {PerPrincipal, modernCallBy("carl")},
	} {
		for _, notices := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, notices %v", name, notices), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, network := startAway(t, &script{}, func(o *Options) { o.Sharing = tc.sharing })
					upstreamtest.Equal(t, "the call before", h.call(t.Context(), tc.call), doneResult)
					network.lose(t, h)
					if notices {
						h.call(t.Context(), tc.call)
					}
					time.Sleep(10 * time.Minute)
					upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Down)
					network.set(false)
					upstreamtest.Equal(t, "the call after", h.call(t.Context(), tc.call), doneResult)
					time.Sleep(protocol.AttemptGap)
					synctest.Wait()
					upstreamtest.Equal(t, "state after the call", h.Snapshot().State, connector.Ready)
				})
			})
		}
	}
}

// The upstream becomes ready when another session has connected, also if that one gets no answer for long.
func TestLongCallMakesTheUpstreamReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{on: map[string]on{wire.MethodToolsCall: func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() }}}
		h, network := startAway(t, s)
		network.lose(t, h)
		time.Sleep(10 * time.Minute)
		network.set(false)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan string)
		go func() { done <- h.call(ctx, legacyCall("ann", nothing, &upstreamtest.Peer{})) }()
		time.Sleep(time.Second)
		upstreamtest.Equal(t, "calls that run", h.Running(), 1)
		upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Ready)
		cancel()
		<-done
	})
}

// An attempt of the catalog session that hangs while another session connects is followed by another one.
func TestSessionConnectsDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		s := &script{on: map[string]on{}}
		s.on[wire.MethodInitialize] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if hangs.Load() && ofCatalog(m) {
				<-r.Context().Done()
				return
			}
			s.initialize(w, m, "2025-11-25")
		}
		h, network := startAway(t, s)
		network.lose(t, h)
		time.Sleep(10 * time.Minute)
		hangs.Store(true)
		network.set(false)
		awaitAttempt(t, s)
		upstreamtest.Equal(t, "the call", h.call(t.Context(), legacyCall("ann", nothing, &upstreamtest.Peer{})), doneResult)
		hangs.Store(false)
		time.Sleep(h.o.Timeout + time.Second) // the attempt ends
		synctest.Wait()
		upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Ready)
	})
}

// A server that asks the catalog session for a pause gets it, also while other sessions work.
func TestOtherSessionsRespectThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		s := &script{on: map[string]on{}}
		s.on[wire.MethodInitialize] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if busy.Load() && ofCatalog(m) {
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			s.initialize(w, m, "2025-11-25")
		}
		h, network := startAway(t, s)
		busy.Store(true)
		network.lose(t, h)
		network.set(false)
		awaitAttempt(t, s)
		before := attempts(s)
		busy.Store(false)
		upstreamtest.Equal(t, "the call", h.call(t.Context(), legacyCall("ann", nothing, &upstreamtest.Peer{})), doneResult)
		time.Sleep(19 * time.Second)
		upstreamtest.Equal(t, "attempts before the time", attempts(s), before)
		time.Sleep(2 * time.Second)
		upstreamtest.Equal(t, "state after it", h.Snapshot().State, connector.Ready)
	})
}

// A catalog session that the server refuses does not try for every call of other sessions: its pauses stay, with one
// attempt more in each.
func TestRefusedCatalogSessionKeepsItsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		s := &script{on: map[string]on{}}
		s.on[wire.MethodInitialize] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if refuses.Load() && ofCatalog(m) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			s.initialize(w, m, "2025-11-25")
		}
		h, network := startAway(t, s)
		refuses.Store(true)
		network.lose(t, h)
		time.Sleep(10 * time.Minute)
		network.set(false)
		before := attempts(s)
		const calls, pauses = 6000, 10 * 60 / 15 // of 15 s at least
		for n := range calls {
			h.call(t.Context(), legacyCall(fmt.Sprint("c", n), nothing, &upstreamtest.Peer{}))
			time.Sleep(100 * time.Millisecond)
		}
		if n := attempts(s) - before; n < 2 || n > 2*pauses+2 {
			t.Errorf("%d attempts in 10 minutes with %d calls", n, calls)
		}
	})
}

// grants are credentials that each principal but the gateway itself has.
type grants struct{ asked atomic.Int64 }

// noGrant is the error of the gateway itself.
type noGrant struct{}

func (noGrant) Error() string   { return "no grant" }
func (noGrant) HasPassed() bool { return false }
func (noGrant) Temporary() bool { return false }

func (g *grants) Headers(_ context.Context, who *call.Principal) (http.Header, error) {
	if who == nil {
		g.asked.Add(1)
		return nil, noGrant{}
	}
	return http.Header{"Authorization": {"Bearer " + who.Subject}}, nil
}

func (*grants) Refused(context.Context, *call.Principal, http.Header, int, http.Header) (bool, error) {
	return false, nil
}

// Sessions with grants of users cause no attempts of a catalog session that has no credentials.
func TestSessionsWithGrantsDoNotWakeTheCatalogSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := new(grants)
		s := &script{on: lists}
		h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
		o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Server: Server{HTTP: serveInMemory(t, s), Era: wire.EraLegacy}, Hooks: Hooks{Observer: h.watch},
			Scoping: Scoping{Sharing: PerPrincipal, Personal: true}}
		o.HTTP.Credentials = k
		h.start(t, NewSessions(o))
		time.Sleep(10 * time.Minute)
		upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Down)
		before := k.asked.Load()
		const principals = 50
		for n := range principals {
			upstreamtest.Equal(t, "a call", h.call(t.Context(), modernCallBy(fmt.Sprint("user", n))), doneResult)
			time.Sleep(time.Second)
		}
		upstreamtest.Equal(t, "sessions", len(h.open), principals)
		if n := k.asked.Load() - before; n > principals/15+1 { // its pauses take 15 s at least
			t.Errorf("%d attempts without credentials", n)
		}
	})
}

// Sessions of clients do not wake an idle catalog session.
func TestSessionsLeaveTheIdleCatalogSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, upstreamtest.Legacy(upstreamtest.Echo), lazily)
		for n := range 3 {
			upstreamtest.Equal(t, "a call", h.call(t.Context(), legacyCall(fmt.Sprint("c", n), nothing, &upstreamtest.Peer{})), `{"ok":1}`)
			time.Sleep(10 * time.Second)
		}
		upstreamtest.Equal(t, "state", h.Snapshot().State, connector.Idle)
		upstreamtest.Equal(t, "starts, with one for the catalog", h.s.Starts(), 4)
	})
}
