package gateway

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/ruleset"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// noLimits is a store that cannot count while it is away.
type noLimits struct {
	store.Store
	away atomic.Bool
}

func (s *noLimits) Acquire(ctx context.Context, holder string, lease time.Duration, limits ...store.Limit) (int, time.Duration, error) {
	if s.away.Load() {
		return -1, 0, fmt.Errorf("away: %w", store.ErrUnavailable)
	}
	return s.Store.Acquire(ctx, holder, lease, limits...)
}

// limitedReplicas are two replicas with a limit in front of a countingServer.
func limitedReplicas(t *testing.T, limit string) (s *countingServer, a, b *attackTest, shared *noLimits) {
	s, url := newCountingServer(t)
	shared = &noLimits{Store: new(storetest.Memory)}
	rules, err := config.Parse("gateway.yaml", []byte("policy: {default: allow, rules: [{name: few, effect: allow, limit: "+limit+"}]}\nupstreams: {none: {url: 'http://127.0.0.1:1/mcp'}}"), os.LookupEnv, ruleset.CheckConditions())
	if err != nil {
		t.Fatal(err)
	}
	change := func(c *config.Config) { c.Upstreams, c.Policy = c.Upstreams[:1], rules.Policy }
	return s, startAttackOn(t, url, sharedKeys, shared, change), startAttackOn(t, url, sharedKeys, shared, change), shared
}

// Rates count at all replicas together. While the store is away, each replica has its share.
func TestRatesAmongReplicas(t *testing.T) {
	_, a, b, shared := limitedReplicas(t, "{rate: 4/h}")
	session := a.session("ann")
	b.session("ann")
	allowed := func(of ...*attackTest) (n int) {
		for range 5 {
			for _, r := range of {
				if !strings.Contains(r.callTool(session, "count"), "too many calls") {
					n++
				}
			}
		}
		return n
	}
	if n := allowed(a, b); n != 4 {
		t.Errorf("%d calls at two replicas, want 4", n)
	}
	polltest.Until(t, "the replicas see each other", func() bool {
		return len(a.g.sharing.replicas.Others()) == 1 && len(b.g.sharing.replicas.Others()) == 1
	})
	shared.away.Store(true)
	if n := allowed(a); n != 2 {
		t.Errorf("%d calls at a replica without its store, want 2", n)
	}
	shared.away.Store(false)
	if n := allowed(b); n != 0 {
		t.Errorf("%d calls once the store is back, want 0", n)
	}
}

// Running calls count at all replicas together.
func TestRunningCallsAmongReplicas(t *testing.T) {
	s, a, b, _ := limitedReplicas(t, "{concurrent: 1}")
	session := a.session("ann")
	b.session("ann")
	done := make(chan string, 1)
	go func() { done <- a.callTool(session, "stay") }()
	<-s.staying
	if got := b.callTool(session, "count"); !strings.Contains(got, "too many calls") {
		t.Errorf("the other replica answers %s", got)
	}
	a.legacy("ann", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	<-done
	polltest.Until(t, "the call that was cancelled does not count", func() bool {
		return strings.Contains(b.callTool(session, "count"), "call ")
	})
}
