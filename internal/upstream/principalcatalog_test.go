package upstream

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// gatherers records the principals whose lists were gathered.
type gatherers struct {
	mu   sync.Mutex
	keys []string
}

func (g *gatherers) note(principal string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = append(g.keys, principal)
}

// taken returns the recorded principals and forgets them.
func (g *gatherers) taken() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := g.keys
	g.keys = nil
	return keys
}

// emptyResults is a legacy server that answers each tool call with an empty result.
func emptyResults() func(*upstreamtest.Instance, wire.Message) {
	return upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
		if m.Method == wire.MethodToolsCall {
			l.Result(m, `{}`)
		}
	})
}

// gatherPerPrincipal configures one catalog for each principal.
func gatherPerPrincipal(g *gatherers) func(*Options) {
	return func(o *Options) {
		o.Sharing, o.Personal, o.Gathered, o.MaxSessions, o.SessionIdle = PerPrincipal, true, g.note, 1, time.Hour
	}
}

// The lists of a principal are gathered in the session of the principal's calls,
// which has the usual limits.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gathered gatherers
		h := startSessions(t, emptyResults(), gatherPerPrincipal(&gathered))
		ann, bob := modernCallBy("ann"), modernCallBy("bob")
		key := ann.Principal.Key()
		if _, _, ok := h.Own(key); ok || h.Gather(t.Context(), legacyCall("x", `{}`, &upstreamtest.Peer{})) || h.s.Starts() != 1 {
			t.Fatal("lists are gathered without a principal")
		}
		for range 2 {
			if !h.Gather(t.Context(), ann) || h.s.Starts() != 2 {
				t.Fatalf("%d instances", h.s.Starts())
			}
		}
		s, who, ok := h.Own(key)
		if !ok || who != ann.Principal || s.State != connector.Ready || len(s.Catalog.Tools) != 2 {
			t.Fatalf("%v %v %+v", ok, who, s)
		}
		synctest.Wait() // the gatherer is told after the lists are there
		if keys := gathered.taken(); len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return k != key }) {
			t.Errorf("gathered for %q", keys)
		}
		h.call(t.Context(), ann)
		h.s.Instance(2).Wait(t, upstreamtest.Method(wire.MethodToolsCall))

		// The list changes of that session concern only ann.
		h.s.Instance(2).Line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		time.Sleep(time.Second)
		if s, _, _ := h.Own(key); s.Changes.Tools != 1 || h.Snapshot().Changes.Tools != 0 || !slices.Contains(gathered.taken(), key) || len(h.watch.noted()) != 0 {
			t.Errorf("own %+v, all %+v, %q", s.Changes, h.Snapshot().Changes, h.watch.noted())
		}
		lists := func(instance int) (n int) {
			for _, m := range h.s.Instance(instance).Methods() {
				if m == wire.MethodToolsList {
					n++
				}
			}
			return n
		}
		if lists(1) != 1 || lists(2) != 2 {
			t.Errorf("the catalog session listed %d times, ann's session %d", lists(1), lists(2))
		}

		if h.Gather(t.Context(), bob) || h.s.Starts() != 2 {
			t.Error("there are more sessions than the limit")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if _, _, ok := h.Own(key); ok || !slices.Contains(gathered.taken(), key) || !h.s.Instance(2).Ended() {
			t.Error("an idle session did not end")
		}
		if !h.Gather(t.Context(), bob) {
			t.Error("no session can be opened after one has ended")
		}
	})
}

// A list request that comes before Run waits for Run.
func TestGatherBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gathered gatherers
		server := &script{stateful: true, on: lists}
		h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
		o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Hooks: Hooks{Observer: h.watch}, Server: Server{HTTP: serveInMemory(t, server)}}
		o.HTTP.Credentials = &stuckCredentials{} // never stuck in this test
		gatherPerPrincipal(&gathered)(&o)
		early, got := NewSessions(o), make(chan bool, 1)
		go func() { got <- early.Gather(t.Context(), modernCallBy("ann")) }()
		synctest.Wait()
		h.serve(t, early)
		if !<-got {
			t.Error("no lists were gathered")
		}
		if _, _, ok := h.Own(modernCallBy("ann").Principal.Key()); !ok {
			t.Error("there is no session for the lists")
		}
	})
}

// A request waits for a slow list as long as calls wait for a server. The lists
// still arrive later.
func TestGatherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gathered gatherers
		all := upstreamtest.Legacy(nil)
		hold := make(chan struct{})
		h := startSessions(t, func(l *upstreamtest.Instance, m wire.Message) {
			if l.N == 2 && m.Method == wire.MethodToolsList {
				go func() {
					<-hold
					all(l, m)
				}()
				return
			}
			all(l, m)
		}, gatherPerPrincipal(&gathered))
		ann := modernCallBy("ann")
		began := time.Now()
		if !h.Gather(t.Context(), ann) || time.Since(began) != 10*time.Second {
			t.Errorf("the request waited %s", time.Since(began))
		}
		if s, _, ok := h.Own(ann.Principal.Key()); !ok || s.Settled {
			t.Errorf("%v %+v", ok, s)
		}
		gathered.taken()
		close(hold)
		synctest.Wait()
		if s, _, _ := h.Own(ann.Principal.Key()); !s.Up() || len(gathered.taken()) == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A session uses the token that expires last.
func TestRenewedToken(t *testing.T) {
	p := &sessionScope{origin: Origin{Principal: "ann"}}
	at := time.Unix(1000, 0)
	first, later, earlier := &call.Principal{Expires: at}, &call.Principal{Expires: at.Add(time.Hour)}, &call.Principal{Expires: at.Add(time.Minute)}
	p.latest.Store(first)
	if !p.renewPrincipal(later) || p.renewPrincipal(earlier) || p.renewPrincipal(later) || p.principal() != later {
		t.Errorf("%+v", p.principal())
	}
	if (*sessionScope)(nil).principal() != nil {
		t.Error("the gateway has a principal")
	}
}
