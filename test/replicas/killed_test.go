package replicas

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/rig"
)

var duration = flag.Duration("for", 9*time.Second, "for how long replicas are killed")

const (
	replicas  = 3
	killEvery = 3 * time.Second
)

// redisAt is the configuration of a store at an address.
func redisAt(addr string) rig.Config { return rig.Config{"kind": "redis", "url": "redis://" + addr} }

// startAll runs the replicas with a store, or without one if it is nil, and two upstreams. more has further keys.
func startAll(t *testing.T, store rig.Config, more ...rig.Config) (*rig.Replicas, map[string]*server) {
	t.Helper()
	servers := map[string]*server{"legacy": startServer(t, "legacy", false), "modern": startServer(t, "modern", true)}
	config := rig.Config{
		"upstreams": rig.Upstreams{"legacy": {"url": servers["legacy"].url}, "modern": {"url": servers["modern"].url}},
	}
	if store != nil {
		config["store"] = store
	}
	for _, m := range more {
		maps.Copy(config, m)
	}
	return rig.StartReplicas(t, replicas, config), servers
}

// A killed replica loses its streams and the calls in flight on it, and nothing else.
func TestKilledReplicas(t *testing.T) {
	redis, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(redis))
	ctx, cancel := context.WithTimeout(t.Context(), *duration+2*within)
	defer cancel()
	l := &load{t: t, url: r.URL, servers: servers, over: make(chan struct{})}
	listeners := l.start(ctx)

	tick := time.NewTicker(killEvery)
	defer tick.Stop()
	kills := 0
	for end := time.Now().Add(*duration); time.Now().Before(end) && l.bad.Load() == 0; kills++ {
		<-tick.C
		victim := rand.IntN(replicas)
		r.Gateways[victim].Process.Kill()
		r.StartAgain(t, victim)
	}
	heard := make([]int64, len(listeners))
	for i, h := range listeners {
		heard[i] = h.updates.Load()
	}
	polltest.UntilNil(t, "updates on all sessions", func() error {
		if err := servers["legacy"].touch(ctx); err != nil { // until it is heard: a stream may break at this moment
			return err
		}
		for i, h := range listeners {
			if h.updates.Load() == heard[i] {
				return fmt.Errorf("the session %.8s… was not told", h.session)
			}
		}
		return nil
	})
	l.end(cancel)
	t.Logf("%d kills, %d calls answered, %d failed, %d resumptions; failures:%v", kills, l.answered.Load(), l.failed.Load(), l.resumed.Load(), &l.failures)
	if l.failed.Load() == 0 || l.answered.Load() < 10*l.failed.Load() {
		t.Error("too few calls were answered, or none failed, so the test proves nothing")
	}
}

// Replicas that end by SIGTERM one after another fail no call.
func TestRollingRestart(t *testing.T) {
	redis, _ := rig.StartRedis(t)
	r, servers := startAll(t, redisAt(redis))
	ctx, cancel := context.WithTimeout(t.Context(), 5*within)
	defer cancel()
	l := &load{t: t, url: r.URL, servers: servers, over: make(chan struct{}), strict: true}
	l.start(ctx)
	for range 2 {
		for i := range replicas {
			before := l.answered.Load()
			if err := r.Gateways[i].Process.Stop(within); err != nil {
				t.Errorf("replica %d did not end cleanly: %v", i+1, err)
			}
			r.StartAgain(t, i)
			polltest.UntilNil(t, "calls are answered", func() error {
				if n := l.answered.Load() - before; n < 50 {
					return fmt.Errorf("%d calls were answered", n)
				}
				return nil
			})
		}
	}
	l.end(cancel)
	t.Logf("%d restarts, %d calls answered, %d failed, %d sent again, %d resumptions", 2*replicas, l.answered.Load(), l.failed.Load(), l.again.Load(), l.resumed.Load())
}
