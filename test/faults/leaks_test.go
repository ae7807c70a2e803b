package faults

import (
	"sync"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// After bursts of all kinds of failing calls and of restarts, the gateway holds no more resources than after the first burst.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	impatient := rig.Config{"timeout": callTimeout}
	u.stdio("good", good, nil)
	u.http("good-http", good, nil)
	u.stdio("dies", dies, nil)
	u.stdio("noisy", noisy, impatient)
	u.stdio("liar", liar, impatient)
	u.http("liar-http", liar, nil)
	u.stdio("broken", broken, impatient)
	u.http("broken-http", broken, nil)
	u.http("cutter", cutter, nil)
	u.stdio("slow", slow, impatient)
	u.http("slow-http", slow, impatient)
	u.stdio("reborn", reborn, nil)
	u.http("reborn-http", reborn, nil)
	g := u.gateway(nil)

	burst(t, g, u)
	base := observe.Settled(t, g)
	t.Logf("after the first burst: %+v", base)
	for range 3 {
		burst(t, g, u)
	}
	observe.CheckReturn(t, g, base)
}

// burst makes every failure many times, concurrently, opens and closes sessions and streams, and restarts all servers that can restart.
func burst(t *testing.T, g *rig.Gateway, u *upstreams) {
	t.Helper()
	ctx := bounded(t)
	var wg sync.WaitGroup
	for _, revision := range []string{raw.Legacy, raw.Modern} {
		for range 4 {
			c := client(t, g, revision)
			stream, err := c.Subscribe(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			for upstream, tools := range faults {
				for _, tool := range tools {
					wg.Go(func() {
						if _, err := use(ctx, c, upstream+"__"+tool, ""); err == nil {
							t.Errorf("%s of %s worked", tool, upstream)
						}
					})
				}
			}
		}
	}
	wg.Wait()
	c := client(t, g, raw.Legacy)
	pid, err := echo(ctx, c, "reborn")
	if err != nil {
		t.Fatal(err)
	}
	kill(t, pid)
	u.remote["reborn-http"].Kill()
	u.remote["reborn-http"].start(t)
	for name := range u.config {
		polltest.UntilNil(t, "a call that works", func() error { _, err := echo(ctx, c, name); return err })
	}
}

// faults are calls that fail.
var faults = map[string][]string{
	"dies": {"die"}, "noisy": {"huge", "merged", "utf8"}, "liar": {"lie"}, "liar-http": {"lie"}, "broken": {"broken"}, "broken-http": {"broken"},
	"cutter": {"cut", "cut-stream"}, "slow": {"sleep"}, "slow-http": {"sleep"},
}
