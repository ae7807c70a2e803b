package soak

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	calls = flag.Int64("calls", 20_000, "how many calls the soak makes")
	seed  = flag.Uint64("seed", 0, "what its choices come from; 0: the clock")
)

const (
	workersEach  = 24  // calling clients of each era
	watchersEach = 4   // subscribing clients of each era
	sessionCalls = 150 // calls after which a legacy client opens a new session
	maxParked    = 64  // maximum number of parked calls of one principal
)

// soak is one run.
type soak struct {
	t       *testing.T
	urls    []string // of the gateways, which take turns
	metrics []string
	turn    atomic.Uint64
	calls   int64
	store   *sharedStore // of gateways that are replicas; nil for one gateway

	// How many calls are made between two restarts of upstreams, outages of upstreams, and outages of the store.
	restartEvery, outageEvery, storeEvery int64

	http      *http.Client
	upstreams []*upstream   // steady ones: their calls fail only if they are restarted
	lazy      []*upstream   // start: lazy; their calls never fail
	failing   []*upstream   // their calls fail in outages
	permits   chan struct{} // permits for parked calls, fewer than the gateway allows
	risks     chan struct{} // permits for calls of failing upstreams, fewer than there are clients

	mu   sync.Mutex
	left []string // sessions that were not closed

	tokens, count                                                                     atomic.Int64
	answered, asked, refused, cancelled, alone, resumed, tasked, excused, states, bad atomic.Int64
	failed, refusedAtOnce, repeated                                                   atomic.Int64 // in outages
	apart, again                                                                      atomic.Int64 // calls during which the store was away, requests that were repeated therefore
}

// upstream is a scripted server behind the gateway.
type upstream struct {
	name     string
	revision string
	http     *httpServer // nil on stdio
	dir      string      // on stdio: the folder of the journal and of the present fault
	config   string      // more keys of the upstream
	// ambiguous reports that the server's questions do not arrive on a call's stream, so that they cannot be assigned while several clients have calls there.
	ambiguous bool
	turns     sync.RWMutex // if ambiguous: locked by a call with questions, read-locked by all others
	// epoch is odd while the server is restarted or fails on purpose, and grows with each of both.
	epoch    atomic.Int64
	failures atomic.Int64 // failed attempts of clients, if it is a failing one
}

// enter waits until a script can run there without interference.
func (u *upstream) enter(script string) (release func()) {
	switch {
	case !u.ambiguous:
		return func() {}
	case strings.Contains(script, "a:"):
		u.turns.Lock()
		return u.turns.Unlock
	default:
		u.turns.RLock()
		return u.turns.RUnlock
	}
}

// violation records a violation. It reports only the first ones.
func (s *soak) violation(format string, a ...any) {
	if s.bad.Add(1) <= 20 {
		s.t.Errorf(format, a...)
	}
}

func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	s := &soak{t: t, calls: *calls, restartEvery: 5000, outageEvery: 1000}
	s.run(1)
	s.wantProof(map[string]*atomic.Int64{"refused at once": &s.refusedAtOnce, "sent again": &s.repeated})
}

// run makes the calls through so many gateways.
func (s *soak) run(gateways int) {
	t := s.t
	s.permits, s.risks = make(chan struct{}, maxParked-24), make(chan struct{}, workersEach/3)
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	s.upstreams = []*upstream{
		{name: "legacy-http", revision: legacy}, {name: "modern-http", revision: modern},
		{name: "legacy-stdio", revision: legacy, ambiguous: true}, {name: "modern-stdio", revision: modern},
	}
	s.lazy = []*upstream{
		{name: "lazy-http", revision: legacy, config: lazyConfig}, {name: "lazy-stdio", revision: modern, config: lazyConfig},
	}
	s.failing = []*upstream{
		{name: "failing-legacy-http", revision: legacy, config: failingConfig}, {name: "failing-modern-http", revision: modern, config: failingConfig},
		{name: "failing-stdio", revision: legacy, config: failingConfig},
	}
	for _, u := range s.all() {
		if u.dir = t.TempDir(); strings.HasSuffix(u.name, "-http") {
			var err error
			if u.http, err = newHTTPServer(u.revision, s.violation); err != nil {
				t.Fatal(err)
			}
			defer u.http.close()
		}
	}
	defer s.http.CloseIdleConnections()
	for range gateways {
		defer s.startGateway(t)()
	}
	if s.store != nil {
		s.waitStore(gateways)
	}

	began := time.Now()
	var watchers []*watcher
	for i := range 2 * watchersEach {
		watchers = append(watchers, s.client(uint64(1000+i), []string{legacy, modern}[i%2]).watch())
	}
	s.work()
	took := time.Since(began)
	toucher := s.client(2000, modern)
	if s.bad.Load() == 0 { // otherwise the test has failed already
		s.wantUpdates(toucher, watchers)
	}
	for _, w := range watchers {
		w.cancel()
		<-w.done
		if w.c.revision == legacy {
			w.c.close()
		}
	}
	for _, session := range s.left {
		c := s.client(0, legacy)
		c.session = session
		c.close()
	}
	if s.bad.Load() == 0 {
		s.wantPermits()
		s.endSessions()
		s.wantNothingLeft(t)
		s.wantFaults(t)
		s.wantOnce(t)
	}
	t.Logf("%d calls in %v (%.0f/s): %d answered, %d questions answered, %d not told whose, %d cancelled, %d left alone, %d streams resumed, %d tasks, %d states refused, %d failed by restarts; "+
		"in outages %d failed, %d refused at once, %d sent again; while the store was away %d, %d requests repeated",
		s.count.Load(), took.Round(time.Second), float64(s.count.Load())/took.Seconds(), s.answered.Load(), s.asked.Load(), s.refused.Load(),
		s.cancelled.Load(), s.alone.Load(), s.resumed.Load(), s.tasked.Load(), s.states.Load(), s.excused.Load(),
		s.failed.Load(), s.refusedAtOnce.Load(), s.repeated.Load(), s.apart.Load(), s.again.Load())
}

// wantProof checks that enough has happened, also of more.
func (s *soak) wantProof(more map[string]*atomic.Int64) {
	happened := map[string]*atomic.Int64{
		"answered": &s.answered, "asked": &s.asked, "cancelled": &s.cancelled, "left alone": &s.alone, "resumed": &s.resumed, "tasks": &s.tasked, "states refused": &s.states,
		"failed in an outage": &s.failed,
	}
	maps.Copy(happened, more)
	if many := s.count.Load() / 20; s.excused.Load() > many || s.refused.Load() > many {
		s.t.Errorf("more than one call in twenty was excused (%d) or had a question refused (%d): the run proves too little", s.excused.Load(), s.refused.Load())
	}
	for name, n := range happened {
		if n.Load() == 0 {
			s.t.Errorf("no call was %s", name)
		}
	}
}

// TestSoakReplicas is the soak with three gateways that share a store. Each request goes to the next one, whatever the session, stream or parked call
// that it is about.
func TestSoakReplicas(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	s := &soak{t: t, calls: *calls / 4, store: startStore(t), restartEvery: 2000, outageEvery: 1000, storeEvery: 1200}
	s.run(3)
	s.wantProof(map[string]*atomic.Int64{"made while the store was away": &s.apart, "repeated because the store was away": &s.again})
}

// next returns the URL of the gateway whose turn it is.
func (s *soak) next() string { return s.urls[s.turn.Add(1)%uint64(len(s.urls))] }

func (s *soak) client(n uint64, revision string) *client {
	return &client{soak: s, revision: revision, rand: rand.New(rand.NewPCG(*seed, n))}
}

// all returns all upstreams.
func (s *soak) all() []*upstream { return slices.Concat(s.upstreams, s.lazy, s.failing) }

// work makes the calls, and restarts and breaks upstreams meanwhile.
func (s *soak) work() {
	var wg sync.WaitGroup
	for i := range 2 * workersEach {
		c := s.client(uint64(i), []string{legacy, modern}[i%2])
		wg.Go(func() {
			for s.count.Load() < s.calls && s.bad.Load() < 20 {
				c.step()
			}
			if c.session != "" {
				c.close()
			}
		})
	}
	over := make(chan struct{})
	restarter := s.client(3000, modern)
	var disturbers sync.WaitGroup
	disturbers.Go(func() {
		s.every(s.restartEvery, over, func() { restarter.restart(s.upstreams[restarter.rand.IntN(len(s.upstreams))]) })
	})
	disturbers.Go(func() { s.disrupt(over) })
	if s.store != nil {
		disturbers.Go(func() { s.loseStore(over) })
	}
	wg.Wait()
	close(over)
	disturbers.Wait()
}

// every calls do whenever the clients have made so many calls since it returned, until over is closed.
func (s *soak) every(calls int64, over <-chan struct{}, do func()) {
	for next := s.count.Load() + calls; ; {
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		if s.count.Load() >= next {
			do()
			next = s.count.Load() + calls
		}
	}
}

// step does one random operation.
func (c *client) step() {
	to := c.upstreams[c.rand.IntN(len(c.upstreams))]
	switch n := c.rand.IntN(1000); {
	case n < 4 && len(c.lazy) > 0: // seldom, so that they are stopped between two calls
		to = c.lazy[c.rand.IntN(len(c.lazy))]
	case n < 60 && len(c.failing) > 0 && c.risk():
		return
	}
	if c.revision == legacy && (c.session == "" || c.calls > sessionCalls) {
		if c.session != "" {
			c.leave()
		}
		c.open(context.Background())
	}
	call, cancel, job := c.modernCall, c.modernCancel, c.modernTask
	if c.revision == legacy {
		call, cancel, job = c.legacyCall, c.legacyCancel, c.legacyTask
	}
	switch n := c.rand.IntN(100); {
	case n < 45:
		call(to, c.pick("", "", "p1", "p3", "w1", "p2 w1 p2", "w3"))
	case n < 75:
		if to.ambiguous && c.rand.IntN(5) > 0 {
			to = c.upstreams[0] // sequential questions would take most of the time
		}
		call(to, c.pick("a:e", "a:s", "a:es", "a:ees", "a:e a:s", "p1 a:e p1", "a:e w1 a:ss a:e", "w1 a:es p2"))
	case n < 82:
		cancel(to)
	case n < 89 && c.revision == legacy:
		c.legacyResume(to)
	case n < 95:
		job(to)
	default:
		c.touch(to, c.rand.IntN(resourcesEach))
	}
}

func (c *client) pick(from ...string) string { return from[c.rand.IntN(len(from))] }

// restart restarts a server during its calls, one on stdio at each gateway.
func (c *client) restart(u *upstream) {
	u.epoch.Add(1)
	if u.http != nil {
		u.http.restart()
	} else {
		for _, c := range c.everywhere() {
			// The child ends before it has answered. A question of a call that was just cancelled may seem to be one of this call, the only one left.
			raw, err := c.ask(context.Background(), "tools/call", u.name+"__die", fmt.Sprintf(`{"name":"%s__die","arguments":{},%s}`, u.name, modernMeta("die", false)))
			if err == nil && !(u.ambiguous && strings.Contains(string(raw), `"input_required"`)) {
				c.violation("%s answered the call that must end it: %s", u.name, raw)
			}
		}
	}
	// The server is back when a call at each gateway succeeds.
	for _, c := range c.everywhere() {
		if !within(func() bool {
			k := &call{to: u, token: fmt.Sprintf("c%d", c.tokens.Add(1))}
			_, err := c.ask(context.Background(), "tools/call", u.name+"__run", `{`+k.arguments("run")+`,`+modernMeta(k.token, false)+`}`)
			return err == nil
		}) {
			c.violation("%s is not available again after its restart", u.name)
		}
	}
	u.epoch.Add(1)
}

// wantPermits parks the maximum number of calls at once and answers them: no ended call may hold a permit.
func (s *soak) wantPermits() {
	u := s.upstreams[0]
	all := make([]*attempt, maxParked)
	each := func(do func(c *client, i int)) {
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { do(s.client(uint64(4000+i), modern), i) })
		}
		wg.Wait()
	}
	if !within(func() bool {
		began := time.Now()
		each(func(c *client, i int) { all[i] = c.try(context.Background(), c.newCall(u, "a:e"), "", nil) })
		together := time.Since(began) < parkTTL // otherwise the first call may have expired before the last was parked
		var late atomic.Bool
		each(func(c *client, i int) {
			r := roundOf(all[i])
			if r == nil {
				s.violation("call %s could not be parked, although %d can be: %v", all[i].call.token, maxParked, all[i].answers)
				return
			}
			a := c.try(context.Background(), all[i].call, r.retry(c.answers(all[i].call, r)), nil)
			if time.Since(began) >= parkTTL {
				late.Store(true)
				return
			}
			c.judge(all[i].call, a)
		})
		return together && !late.Load() || s.bad.Load() > 0
	}) {
		s.violation("this machine is too busy to park %d calls within %v", maxParked, parkTTL)
	}
}
