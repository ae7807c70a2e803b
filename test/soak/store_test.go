package soak

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/rig"
)

const (
	// awayCalls is how many calls are made while the store is away. awayTime is for how long it is away at most: calls that need two gateways wait for it.
	awayCalls = 200
	awayTime  = 2 * time.Second
	// repeatPause is the pause before a client repeats what failed because the store was away, and maxRepeats is how often it does.
	repeatPause = 50 * time.Millisecond
	maxRepeats  = 40
	// lossTime is for how long before an outage the store may have had notes that replicas had not read.
	lossTime = 5 * time.Second
)

// sharedStore is the Redis of gateways that are replicas.
type sharedStore struct {
	addr   string
	server *process.Process
	epoch  atomic.Int64 // odd while the store is away

	mu     sync.Mutex
	ended  []endedSession
	losses []time.Time // the beginnings and the ends of the outages
}

// endedSession is a session that a client has closed.
type endedSession struct {
	id string
	at time.Time
}

func startStore(t *testing.T) *sharedStore {
	t.Helper()
	// Another address than that of all other servers: while the store is away, none of them, and no connection, can take its port.
	free, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	return &sharedStore{addr: addr, server: rig.StartRedisOn(t, addr)}
}

func (s *sharedStore) closed(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, endedSession{session, time.Now()})
}

// change notes that the store goes away or is back.
func (s *sharedStore) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses = append(s.losses, time.Now())
	s.epoch.Add(1)
}

// storeEpoch is odd while the store is away, and grows with each change. It is 0 without a store.
func (s *soak) storeEpoch() int64 {
	if s.store == nil {
		return 0
	}
	return s.store.epoch.Load()
}

// apartSince reports whether the store has been away since it had this epoch.
func (s *soak) apartSince(epoch int64) bool { return epoch%2 == 1 || s.storeEpoch() != epoch }

// wasApart reports whether the store was away during a call.
func (s *soak) wasApart(k *call) bool { return s.apartSince(k.store) }

// needsStore reports whether a call may have needed another replica than the one that it reached, so that it may fail while the store is away.
func (k *call) needsStore() bool { return k.rounds || k.job }

// everywhere returns clients like this one, one for each gateway.
func (c *client) everywhere() []*client {
	var all []*client
	for _, url := range c.urls {
		at := *c
		at.gateway = url
		all = append(all, &at)
	}
	return all
}

// loseStore takes the store away again and again until over is closed, once at least in each way: it ends and comes back empty, or is paused.
func (s *soak) loseStore(over <-chan struct{}) {
	turn := 0
	next := func() {
		if turn%2 == 0 {
			s.storeOutage(over, func() { s.store.server.Kill() }, func() { s.store.server = rig.StartRedisOn(s.t, s.store.addr) })
		} else {
			s.storeOutage(over, func() { s.signal(syscall.SIGSTOP) }, func() { s.signal(syscall.SIGCONT) })
		}
		turn++
	}
	s.every(s.storeEvery, over, next)
	for turn < 2 && s.bad.Load() == 0 {
		next()
	}
}

func (s *soak) signal(sig syscall.Signal) {
	if err := syscall.Kill(s.store.server.PID(), sig); err != nil {
		s.violation("the store: %v", err)
	}
}

// storeOutage takes the store away until clients have made some calls. It returns when all gateways share again.
func (s *soak) storeOutage(over <-chan struct{}, begin, end func()) {
	s.store.change()
	began := time.Now()
	begin()
	s.waitStore(0)
	noticed := time.Since(began)
	until := s.count.Load() + awayCalls
	within(func() bool {
		select {
		case <-over:
			return true
		default:
			return s.count.Load() >= until || time.Since(began) > awayTime || s.bad.Load() > 0
		}
	})
	end()
	ended := time.Now()
	s.waitStore(len(s.urls))
	back := time.Since(ended)
	s.wantShared()
	s.store.change()
	s.t.Logf("the store was away for %v: noticed after %v; back after %v, shared again after %v", ended.Sub(began), noticed, back, time.Since(ended))
}

// waitStore waits until all gateways say that the store works, and see each other, or until none says that it works.
func (s *soak) waitStore(up int) {
	if !within(func() bool {
		all, err := s.gauges("store_up", "replicas")
		return err == nil && all["mcp_gateway_store_up"] == float64(up) && (up == 0 || all["mcp_gateway_replicas"] == float64(up*up))
	}) {
		s.violation("not %d gateways say that the store works", up)
	}
}

// wantShared waits until a call that is parked at one gateway can be resumed at each other one.
func (s *soak) wantShared() {
	all := s.client(6000, modern).everywhere()
	for i, here := range all {
		for j, there := range all {
			if i == j {
				continue
			}
			if !within(func() bool {
				k := here.newCall(s.upstreams[0], "a:e")
				k.epoch, k.rounds = -1, true
				r := roundOf(here.tryOnce(context.Background(), k, "", nil))
				return r != nil && there.judge(k, there.tryOnce(context.Background(), k, r.retry(there.answers(k, r)), nil)) || s.bad.Load() > 0
			}) {
				s.violation("a call that is parked at gateway %d cannot be resumed at gateway %d after the store is back", i+1, j+1)
			}
		}
	}
}

// mayRepeat reports whether a request failed because the store was away, and may be sent again. It waits a moment then.
func (c *client) mayRepeat(k *call, a *attempt) bool {
	if !c.wasApart(k) || len(a.answers) != 1 || a.answers[0].Error == nil || a.answers[0].Error.Code != codeInternal {
		return false
	}
	var data unavailable
	if json.Unmarshal(a.answers[0].Error.Data, &data) != nil || data.Upstream != "" || data.Retryable == nil || !*data.Retryable {
		return false
	}
	c.again.Add(1)
	time.Sleep(repeatPause)
	return true
}

// insist says everything that belongs to a legacy request at all gateways, again and again while the store is away: what it says at one of them does
// not reach the others then. stop ends that.
func (c *client) insist(a *attempt) (stop func()) {
	if c.store == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for sleep(ctx, 4*repeatPause) {
			if !c.wasApart(a.call) {
				continue
			}
			a.mu.Lock()
			said := a.said
			a.mu.Unlock()
			for _, at := range c.everywhere() {
				for _, text := range said {
					c.again.Add(1)
					at.notify(context.Background(), text)
				}
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

// resume goes on with the stream of a call. While the store is away, only the gateway of the call can.
func (c *client) resume(k *call, lastEvent string) (*http.Response, error) {
	for tries := 0; ; tries++ {
		resp, err := c.get(context.Background(), http.MethodGet, lastEvent)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || tries == maxRepeats || !c.wasApart(k) {
			return resp, err
		}
		resp.Body.Close()
		c.again.Add(1)
		time.Sleep(repeatPause)
	}
}

// endSessions ends sessions at all gateways whose end may not have reached them all, because the store was away.
func (s *soak) endSessions() {
	if s.store == nil {
		return
	}
	for _, session := range s.store.ended {
		for i := 0; i+1 < len(s.store.losses); i += 2 {
			if session.at.After(s.store.losses[i].Add(-lossTime)) && session.at.Before(s.store.losses[i+1]) {
				c := s.client(0, legacy)
				c.session = session.id
				for _, at := range c.everywhere() {
					at.close()
				}
				break
			}
		}
	}
}

// wantOnce asserts that no process of a server on stdio has received a call that another one has received, and that everything in the store has an end.
func (s *soak) wantOnce(t *testing.T) {
	t.Helper()
	for _, u := range s.all() {
		if u.http != nil {
			continue // it has noticed that by itself
		}
		seen := make(map[string]bool)
		if err := readJournal(u.dir, func(event, token string) {
			if event == eventBegun && seen[token] {
				t.Errorf("call %s was received by two processes of %s", token, u.name)
			}
			seen[token] = seen[token] || event == eventBegun
		}); err != nil {
			t.Error(err)
		}
	}
	if s.store == nil {
		return
	}
	const lasting = `local n = 0; for _, k in ipairs(redis.call('keys', '*')) do if redis.call('pttl', k) == -1 then n = n + 1 end end; return n`
	if n := strings.TrimSpace(rig.RedisCLI(t, s.store.addr, "eval", lasting, "0")); n != "0" {
		t.Errorf("%s keys in the store have no end", n)
	}
}
