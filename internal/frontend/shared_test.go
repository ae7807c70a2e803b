package frontend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/sessionstore"
	sharedstore "mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// cluster is several replicas with one store.
type cluster struct {
	t    *testing.T
	kept *testStore
	all  []*replica
	subs []*testSubscriptions // of each
	gone map[int]bool         // replicas that have ended
	// unseen says that no replica sees the others yet.
	unseen bool
	// calls counts the requests of replicas to one another.
	calls atomic.Int64
	// lose makes as many requests fail: their replies are lost.
	lose atomic.Int64
}

// testStore counts what a store is asked for, and fails on demand.
type testStore struct {
	storetest.Memory
	asked atomic.Int64
	away  atomic.Bool
}

func (s *testStore) ask() error {
	s.asked.Add(1)
	if s.away.Load() {
		return sharedstore.ErrUnavailable
	}
	return nil
}

func (s *testStore) Fields(ctx context.Context, key sharedstore.Key) (map[string][]byte, error) {
	if err := s.ask(); err != nil {
		return nil, err
	}
	return s.Memory.Fields(ctx, key)
}

func (s *testStore) Append(ctx context.Context, key sharedstore.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	if err := s.ask(); err != nil {
		return err
	}
	return s.Memory.Append(ctx, key, keep, ttl, entries...)
}

func (s *testStore) Read(ctx context.Context, key sharedstore.Key, after string, max int, wait time.Duration) ([]sharedstore.Entry, error) {
	if err := s.ask(); err != nil {
		return nil, err
	}
	return s.Memory.Read(ctx, key, after, max, wait)
}

func (s *testStore) PutField(ctx context.Context, key sharedstore.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	if err := s.ask(); err != nil {
		return false, err
	}
	return s.Memory.PutField(ctx, key, field, value, max, ttl)
}

// newCluster starts replicas that share a key and a store. Each runs until the test ends.
func newCluster(t *testing.T, n int, change func(*Options)) *cluster {
	c := &cluster{t: t, kept: new(testStore), gone: make(map[int]bool)}
	for range n {
		c.add(change)
	}
	return c
}

func (c *cluster) add(change func(*Options)) *replica {
	i := len(c.all)
	subs := &testSubscriptions{set: make(map[*testSubscription]bool)}
	copies := sessionstore.NewEvents(c.kept, time.Hour, 1<<30)
	var states *sessionstore.States
	r := newReplica(c.t, func(o *Options) {
		o.Subscriptions = subs
		idle := o.Limits.SessionIdle
		if change != nil {
			change(o)
			idle = o.Limits.SessionIdle
		}
		if idle == 0 {
			idle = defaultSessionIdle
		}
		o.Sessions.Replicas, o.Sessions.Copies = clusterPeers{c, i}, copies
		states = sessionstore.NewStates(c.kept, idle, clusterPeers{c, i})
		o.Sessions.Shared = states
	}, 1)
	c.all, c.subs = append(c.all, r), append(c.subs, subs)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	running.Go(func() { copies.Run(ctx, time.Second) })
	running.Go(func() { states.Run(ctx) })
	c.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return r
}

// clusterPeers are the peers of one replica.
type clusterPeers struct {
	c    *cluster
	self int
}

func (p clusterPeers) Name() string { return fmt.Sprint("R", p.self) }

func (p clusterPeers) Others() (names []string) {
	if p.c.unseen {
		return nil
	}
	for i := range p.c.all {
		if i != p.self {
			names = append(names, fmt.Sprint("R", i))
		}
	}
	return names
}

func (p clusterPeers) TellNow(_ context.Context, kind string, note []byte) { p.Tell(kind, note) }

func (p clusterPeers) Tell(kind string, note []byte) {
	if p.c.kept.away.Load() {
		return
	}
	for i, r := range p.c.all {
		if i == p.self || p.c.gone[i] {
			continue
		}
		if heard := r.Notes()[kind]; heard != nil {
			heard(note)
		} else {
			sessionstore.Note(note, r.SessionChanged)
		}
	}
}

func (p clusterPeers) Call(ctx context.Context, to, kind string, request []byte, receive func([]byte)) ([]byte, error) {
	p.c.calls.Add(1)
	if p.c.kept.away.Load() {
		return nil, sharedstore.ErrUnavailable
	}
	var i int
	if n, err := fmt.Sscanf(to, "R%d", &i); n != 1 || err != nil || i >= len(p.c.all) || p.c.gone[i] {
		return nil, fmt.Errorf("%s: %w", to, ErrReplicaGone)
	}
	loses := p.c.lose.Add(-1) >= 0
	reply, err := p.c.all[i].Requests()[kind](ctx, request, func(msg []byte) error {
		if loses || p.c.gone[i] {
			return errors.New("lost")
		}
		receive(bytes.Clone(msg))
		return ctx.Err()
	})
	if loses {
		return nil, errors.New("lost")
	}
	return reply, err
}

// rpc sends a request in ann's session and returns the result.
func (r *replica) rpc(id, method, params string) string {
	r.t.Helper()
	w := r.from(http.MethodPost, "ann", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params), wire.HeaderSession, id)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"result"`) {
		r.t.Errorf("%s: %d %s", method, w.Code, w.Body)
	}
	return w.Body.String()
}

func (r *replica) subscribe(id, uri string) {
	r.t.Helper()
	r.rpc(id, wire.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":%q}`, uri))
}

func (r *replica) unsubscribe(id, uri string) {
	r.t.Helper()
	r.rpc(id, wire.MethodResourcesUnsub, fmt.Sprintf(`{"uri":%q}`, uri))
}

var openLegacy = initializeWith(wire.Rev20250618, `,"capabilities":{}`)

// updatesOn returns the URIs of the updates on a stream, sorted.
func updatesOn(t *testing.T, w *recorder) []string {
	t.Helper()
	var out []string
	for _, e := range eventsOf(t, w.written()) {
		if m, err := wire.Parse(e.Data, wire.Limits{Depth: 10}); err == nil && m.Method == wire.NoteResourceUpdated {
			out = append(out, wire.ValueOf(m.Params).Get("uri").Str())
		}
	}
	slices.Sort(out)
	return out
}

// inCluster runs a test in a bubble, and ends its streams.
func inCluster(t *testing.T, n int, change func(*Options), run func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n, change)
		run(t, c)
		for _, r := range c.all {
			r.Stop()
		}
		synctest.Wait()
	})
}

// An update reaches the client's stream, wherever the client has subscribed: also at a replica that
// adopts the session later, where what the client may have missed counts as an update.
func TestUpdatesReachTheStream(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		c.all[2].subscribe(id, "x:early")
		w := c.all[1].stream(id, "")
		if got := updatesOn(t, w); !slices.Equal(got, []string{"x:early"}) {
			t.Errorf("a stream at another replica begins with updates of %q", got)
		}
		c.all[2].subscribe(id, "x:late")
		c.all[0].unsubscribe(id, "x:early")
		synctest.Wait()
		for _, subs := range c.subs {
			subs.updated("x:early", "x:early")
			subs.updated("x:late", "x:late/part")
		}
		synctest.Wait()
		if got := updatesOn(t, w); !slices.Equal(got, []string{"x:early", "x:late", "x:late/part"}) {
			t.Errorf("then it has %q", got)
		}
		for i, want := range []int{0, 1, 1} { // no stream, the stream, the subscription
			if n := len(c.subs[i].set); n != want {
				t.Errorf("replica %d has %d subscriptions, want %d", i, n, want)
			}
		}
	})
}

// A subscription that the client ends while it is restored does not come back.
func TestUnsubscribedWhileRestored(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		sess := c.all[0].sessions.Find(id)
		sess.Apply(session.Change{Subscribed: "x:slow"}) // takes until restoreTimeout
		w := c.all[0].stream(id, "")
		c.all[0].SessionChanged(id, session.Change{Subscribed: "x:1"}) // waits for the first
		c.all[1].unsubscribe(id, "x:slow")
		time.Sleep(restoreTimeout)
		synctest.Wait()
		if got := updatesOn(t, w); !slices.Equal(got, []string{"x:1"}) || len(sess.State().URIs) != 1 {
			t.Errorf("updates %q, subscriptions %q", got, sess.State().URIs)
		}
	})
}

// A subscription that cannot be made at the replica with the stream is tried again while there is a stream.
func TestSubscriptionIsTriedAgain(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		w := c.all[1].stream(id, "")
		c.subs[1].fails = 2
		c.all[0].subscribe(id, "x:1")
		synctest.Wait()
		if got := updatesOn(t, w); len(got) != 0 {
			t.Errorf("before the subscription is made: %q", got)
		}
		time.Sleep(3 * firstRestorePause)
		synctest.Wait()
		if got := updatesOn(t, w); !slices.Equal(got, []string{"x:1"}) {
			t.Errorf("updates %q", got)
		}
		c.subs[1].fails = 100
		c.all[0].subscribe(id, "x:2")
		time.Sleep(time.Hour)
		synctest.Wait()
		if tries := 100 - c.subs[1].fails; tries != 6 {
			t.Errorf("a subscription that always fails is tried %d times, want 6", tries)
		}
	})
}

// The level that the client sets at one replica is that of the session at all.
func TestLevelIsShared(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		c.all[1].rpc(id, wire.MethodToolsList, `{}`)
		c.all[2].rpc(id, wire.MethodSetLevel, `{"level":"error"}`)
		c.add(nil)
		for i, r := range c.all {
			r.rpc(id, wire.MethodToolsList, `{}`)
			if got := r.sessions.Find(id).LogLevel(); got != wire.LevelError {
				t.Errorf("replica %d: %v", i, got)
			}
		}
	})
}

// A session that was ended at one replica is ended at all: those that have it, and those that are asked
// later.
func TestEndedEverywhere(t *testing.T) {
	for name, end := range map[string]func(*cluster, string){
		"DELETE": func(c *cluster, id string) {
			if w := c.all[0].from(http.MethodDelete, "ann", "", wire.HeaderSession, id); w.Code != http.StatusNoContent {
				c.t.Errorf("DELETE: %d %s", w.Code, w.Body)
			}
		},
		"revocation": func(c *cluster, _ string) {
			c.all[0].Revoke(func(p *call.Principal) bool { return p.AuthMethod == "api-key" })
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
				id := c.all[0].open(openLegacy)
				c.all[1].subscribe(id, "x:1")
				w := c.all[1].stream(id, "")
				end(c, id)
				<-w.done
				late := c.add(nil)
				for i, r := range c.all {
					if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id); w.Code != http.StatusNotFound {
						t.Errorf("replica %d: %d %s", i, w.Code, w.Body)
					}
				}
				asked := c.kept.asked.Load()
				late.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id)
				if n := c.kept.asked.Load(); n != asked {
					t.Errorf("the store is asked %d times for an ended session that is known", n-asked)
				}
				time.Sleep(8 * 24 * time.Hour)
				if fields, _ := c.kept.Memory.Fields(t.Context(), sharedstore.Key{Kind: "session", Name: id}); len(fields) > 0 {
					t.Errorf("the store still has %q", fields)
				}
			})
		})
	}
}

// Calls in a session that a replica has, and modern calls, do not ask the store. A session without
// subscriptions and level has nothing in it.
func TestLiveSessionsCostTheStoreNothing(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		if n := c.kept.asked.Load(); n != 0 {
			t.Errorf("initialize asks the store %d times", n)
		}
		c.all[1].rpc(id, wire.MethodToolsList, `{}`)
		if n := c.kept.asked.Load(); n != 1 {
			t.Errorf("adoption asks the store %d times", n)
		}
		for range 10 {
			for _, r := range c.all {
				r.rpc(id, wire.MethodToolsCall, `{"name":"x"}`)
			}
		}
		if n := c.kept.asked.Load(); n != 1 {
			t.Errorf("calls ask the store %d times", n-1)
		}
	})
}

// While the store is away, sessions are served as by replicas without one. When it is back, and also if
// it was restarted empty, it gets what it has missed.
func TestSessionsWithoutTheStore(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		id := c.all[0].open(openLegacy)
		c.all[0].subscribe(id, "x:before")
		c.kept.away.Store(true)
		c.all[1].subscribe(id, "x:away")
		c.all[1].rpc(id, wire.MethodSetLevel, `{"level":"error"}`)
		if err := c.kept.Delete(t.Context(), sharedstore.Key{Kind: "session", Name: id}); err != nil {
			t.Error(err)
		}
		c.kept.away.Store(false)
		time.Sleep(defaultSessionIdle/2 + time.Minute)
		synctest.Wait()
		w := c.all[2].stream(id, "")
		if got := updatesOn(t, w); !slices.Equal(got, []string{"x:away", "x:before"}) {
			t.Errorf("updates %q", got)
		}
		if got := c.all[2].sessions.Find(id).LogLevel(); got != wire.LevelError {
			t.Errorf("level %v", got)
		}
		c.all[2].unsubscribe(id, "x:away")
		for range 20 { // the stream keeps the session in use
			time.Sleep(defaultSessionIdle / 2)
		}
		if st, err := c.all[2].options.Sessions.Shared.Load(t.Context(), id); err != nil || !slices.Equal(st.URIs, []string{"x:before"}) || st.Level != wire.LevelError {
			t.Errorf("after hours the store has %+v, %v", st, err)
		}
		c.all[2].Drain()
		<-w.done
		time.Sleep(4 * defaultSessionIdle)
		if st, err := c.all[2].options.Sessions.Shared.Load(t.Context(), id); err != nil || len(st.URIs) != 0 || st.Level != wire.LevelNone {
			t.Errorf("long after the last use the store has %+v, %v", st, err)
		}
	})
}

// Changes that clients make while the store is away hold at all replicas soon after it is back, ends of sessions too.
func TestChangesWhileTheStoreIsAway(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, c *cluster) {
		end := func(id string) {
			if w := c.all[0].from(http.MethodDelete, "ann", "", wire.HeaderSession, id); w.Code != http.StatusNoContent {
				t.Errorf("DELETE: %d %s", w.Code, w.Body)
			}
		}
		id, before := c.all[0].open(openLegacy), c.all[0].open(openLegacy)
		known, unknown := c.all[0].open(openLegacy), c.all[0].open(openLegacy)
		w := c.all[2].stream(id, "")
		c.all[2].rpc(known, wire.MethodToolsList, `{}`)
		end(before)
		c.kept.away.Store(true)
		c.all[0].subscribe(id, "x:away")
		c.all[0].subscribe(id, "x:short")
		c.all[0].unsubscribe(id, "x:short")
		c.all[0].rpc(id, wire.MethodSetLevel, `{"level":"error"}`)
		end(known)
		end(unknown)
		c.add(nil).rpc(before, wire.MethodToolsList, `{}`) // it cannot know better
		c.kept.away.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := updatesOn(t, w); !slices.Equal(got, []string{"x:away"}) {
			t.Errorf("updates %q", got)
		}
		if got := c.all[2].sessions.Find(id).LogLevel(); got != wire.LevelError {
			t.Errorf("level %v", got)
		}
		for i, r := range c.all {
			for name, id := range map[string]string{"known there": known, "not known there": unknown, "ended before": before} {
				if w := r.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id); w.Code != http.StatusNotFound {
					t.Errorf("replica %d serves the session that has ended and was %s: %d", i, name, w.Code)
				}
			}
		}
		c.all[2].Drain()
		<-w.done
	})
}

// A client that floods a replica with its sessions, real and ended ones, takes no more room than others
// leave, and asks the store once for each.
func TestFloodOfAdoptions(t *testing.T) {
	inCluster(t, 2, func(o *Options) { o.Limits.MaxSessions = 40 }, func(t *testing.T, c *cluster) {
		a, b := c.all[0], c.all[1]
		mine := b.from(http.MethodPost, "bob", openLegacy).Header().Get(wire.HeaderSession)
		var ids []string
		for range 60 {
			id := a.open(openLegacy)
			ids = append(ids, id)
			a.from(http.MethodDelete, "ann", "", wire.HeaderSession, id)
		}
		for range 15 {
			ids = append(ids, a.open(openLegacy))
		}
		asked := c.kept.asked.Load()
		for range 3 {
			for _, id := range ids {
				b.from(http.MethodPost, "ann", listBody, wire.HeaderSession, id)
			}
		}
		if n := c.kept.asked.Load() - asked; n > int64(len(ids)) {
			t.Errorf("the store was asked %d times about %d sessions", n, len(ids))
		}
		if w := b.from(http.MethodPost, "bob", listBody, wire.HeaderSession, mine); w.Code != http.StatusOK {
			t.Errorf("the session of another client: %d %s", w.Code, w.Body)
		}
		if w := b.from(http.MethodPost, "eve", openLegacy); w.Code != http.StatusOK {
			t.Errorf("a new session of another client: %d %s", w.Code, w.Body)
		}
	})
}
