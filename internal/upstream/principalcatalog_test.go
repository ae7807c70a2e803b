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
	"mcpgateway/internal/wire"
)

// gatherers remembers for whom lists were gathered.
type gatherers struct {
	mu   sync.Mutex
	keys []string
}

func (g *gatherers) note(principal string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = append(g.keys, principal)
}

// taken returns them, and forgets them.
func (g *gatherers) taken() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := g.keys
	g.keys = nil
	return keys
}

// counted answers as a legacy server does.
func counted() func(*fakeLife, wire.Message) {
	return legacy(func(l *fakeLife, m wire.Message) {
		if m.Method == wire.MethodToolsCall {
			l.result(m, `{}`)
		}
	})
}

func personal(g *gatherers) func(*Options) {
	return func(o *Options) {
		o.Sharing, o.Personal, o.Gathered, o.MaxSessions, o.SessionIdle = PerPrincipal, true, g.note, 1, time.Hour
	}
}

// TestGather gathers the lists of a principal in the session in which their calls go,
// which is like any other in its bounds.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told gatherers
		h := keep(t, counted(), personal(&told))
		ann, bob := byModern("ann"), byModern("bob")
		key := ann.Principal.Key()
		if _, _, ok := h.Own(key); ok || h.Gather(t.Context(), by("x", `{}`, &peer{})) || h.s.starts() != 1 {
			t.Fatal("something is gathered for nobody")
		}
		for range 2 {
			if !h.Gather(t.Context(), ann) || h.s.starts() != 2 {
				t.Fatalf("%d lives", h.s.starts())
			}
		}
		s, who, ok := h.Own(key)
		if !ok || who != ann.Principal || s.State != connector.Ready || len(s.Catalog.Tools) != 2 {
			t.Fatalf("%v %v %+v", ok, who, s)
		}
		if keys := told.taken(); len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return k != key }) {
			t.Errorf("told of %q", keys)
		}
		h.call(t.Context(), ann)
		h.s.life(2).wait(t, method(wire.MethodToolsCall))

		// What that session says of its lists concerns ann alone.
		h.s.life(2).line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		time.Sleep(time.Second)
		if s, _, _ := h.Own(key); s.Changes.Tools != 1 || h.Snapshot().Changes.Tools != 0 || !slices.Contains(told.taken(), key) || len(h.watch.noted()) != 0 {
			t.Errorf("own %+v, all %+v, %q", s.Changes, h.Snapshot().Changes, h.watch.noted())
		}
		lists := func(life int) (n int) {
			for _, m := range h.s.life(life).methods() {
				if m == wire.MethodToolsList {
					n++
				}
			}
			return n
		}
		if lists(1) != 1 || lists(2) != 2 {
			t.Errorf("the head has listed %d times, ann's session %d", lists(1), lists(2))
		}

		if h.Gather(t.Context(), bob) || h.s.starts() != 2 {
			t.Error("more sessions than there may be")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if _, _, ok := h.Own(key); ok || !slices.Contains(told.taken(), key) || !isOver(h.s.life(2)) {
			t.Error("an idle session goes on")
		}
		if !h.Gather(t.Context(), bob) {
			t.Error("there is no place where one has become free")
		}
	})
}

// TestGatherBeforeTheStart waits for the upstream to be run: a request may come before.
func TestGatherBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told gatherers
		server := &script{stateful: true, on: lists}
		h := &house{watch: &originWatcher{watcher: newWatcher()}}
		o := Options{Name: "files", Info: protocol.Info{Name: "gw", Version: "7"}, Hooks: Hooks{Observer: h.watch}, Server: Server{HTTP: serveInMemory(t, server)}}
		o.HTTP.Credentials = &stuckCredentials{} // which are never stuck here
		personal(&told)(&o)
		early, got := NewSessions(o), make(chan bool, 1)
		go func() { got <- early.Gather(t.Context(), byModern("ann")) }()
		synctest.Wait()
		h.serve(t, early)
		if !<-got {
			t.Error("nothing was gathered")
		}
		if _, _, ok := h.Own(byModern("ann").Principal.Key()); !ok {
			t.Error("there is no session that gathers")
		}
	})
}

// TestGatherWaits for a list that does not come for as long as calls wait for a
// server, and learns of it later all the same.
func TestGatherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told gatherers
		all := legacy(nil)
		hold := make(chan struct{})
		h := keep(t, func(l *fakeLife, m wire.Message) {
			if l.n == 2 && m.Method == wire.MethodToolsList {
				go func() {
					<-hold
					all(l, m)
				}()
				return
			}
			all(l, m)
		}, personal(&told))
		ann := byModern("ann")
		began := time.Now()
		if !h.Gather(t.Context(), ann) || time.Since(began) != 10*time.Second {
			t.Errorf("waited %s", time.Since(began))
		}
		if s, _, ok := h.Own(ann.Principal.Key()); !ok || s.Settled {
			t.Errorf("%v %+v", ok, s)
		}
		told.taken()
		close(hold)
		synctest.Wait()
		if s, _, _ := h.Own(ann.Principal.Key()); !s.Up() || len(told.taken()) == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRenewedProof has a session use the proof that is good for longest.
func TestRenewedProof(t *testing.T) {
	p := &sessionScope{origin: Origin{Principal: "ann"}}
	at := time.Unix(1000, 0)
	first, later, earlier := &call.Principal{Expires: at}, &call.Principal{Expires: at.Add(time.Hour)}, &call.Principal{Expires: at.Add(time.Minute)}
	p.latest.Store(first)
	if !p.renewPrincipal(later) || p.renewPrincipal(earlier) || p.renewPrincipal(later) || p.principal() != later {
		t.Errorf("%+v", p.principal())
	}
	if (*sessionScope)(nil).principal() != nil {
		t.Error("the gateway is a principal")
	}
}
