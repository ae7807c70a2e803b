package replicas

import (
	"context"
	"testing"
	"time"

	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// While Sentinel makes the replica of a Redis server the new master, no call fails. Requests that need the store get an error that says so, and the
// gateways use the new master by themselves.
func TestFailover(t *testing.T) {
	redis := rig.StartRedisFailover(t, 3)
	r, servers := startAll(t, rig.Config{"kind": "redis", "url": redis.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 5*within)
	defer cancel()
	l := &load{t: t, url: r.URL, servers: servers, over: make(chan struct{}), strict: true}
	clients, end := context.WithCancel(ctx)
	defer end()
	l.start(clients)
	here, elsewhere := at(t, r.Gateways[0].URL, raw.Modern), at(t, r.Gateways[1].URL, raw.Modern)
	call := park(ctx, t, here, "legacy__ask")

	before := l.answered.Load()
	redis.Master.Kill()
	begun := time.Now()
	waitStore(t, r, false)
	noticed := time.Since(begun)
	// The retry needs the store, because another replica has the call. It is answered when the store is back, or gets an error that says so and may be
	// sent again.
	answer := retry(ctx, t, elsewhere, call)
	if !accepted(answer) {
		wantFault(t, "a retry at another replica while the store is away", answer, -32603, `"retryable":true`)
	}
	waitStore(t, r, true)
	during := l.answered.Load() - before
	t.Logf("noticed after %v, %d calls meanwhile, the store is used again after %v", noticed, during, time.Since(begun))
	if during == 0 {
		t.Error("no calls were answered during the failover")
	}
	for f := answer.Response.Fault(); f != nil && f.Code == -32603 && ctx.Err() == nil; f = answer.Response.Fault() {
		answer = retry(ctx, t, elsewhere, call)
	}
	if !accepted(answer) {
		t.Errorf("after the failover the retry gets %s", answer.Response.Text)
	}
	sharesSubscriptions(clients, t, l, r, servers["legacy"])
	l.end(end)
	t.Logf("%d calls, %d failed, %d sent again", l.answered.Load(), l.failed.Load(), l.again.Load())
}
