package matrix

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// BenchmarkOthers measures the calls of an upstream without a fault, while other clients call a second upstream at a fixed pace: first one that does
// not fail either, and then one with each fault. p99/none is the 99th percentile as a multiple of that without a fault. A server that fails may need
// the processor itself, so the other clients then call it through a gateway of their own: p99/apart is the 99th percentile as a multiple of that, which
// is what the faults cost because both go through one gateway. It asserts nothing. Run it alone:
// go test ./test/faults/matrix -run '^$' -bench Others -benchtime 500x
func BenchmarkOthers(b *testing.B) {
	f := startFleet(b)
	for _, transport := range transports {
		s := f.bystanders[transport]
		upstreams := rig.Upstreams{s.Name: s.config}
		for c, faulty := range f.servers {
			if c.transport == transport {
				upstreams[faulty.Name] = faulty.config
			}
		}
		g, another := startGateway(b, f, upstreams, nil), startGateway(b, f, upstreams, nil)
		calm := f.servers[cell{hangs, transport, ""}]
		var none time.Duration // of the last run, which is the longest one
		b.Run(transport+"/none", func(b *testing.B) { none = measure(b, g, s.Name, g, calm.Name) })
		for _, c := range cellsOf(transport, atCall) {
			faulty := f.servers[cell{c.kind, transport, ""}]
			var apart time.Duration
			faulty.set(b, c.kind+" "+atCall)
			b.Run(transport+"/"+c.kind+"/apart", func(b *testing.B) { apart = measure(b, g, s.Name, another, faulty.Name) })
			b.Run(transport+"/"+c.kind, func(b *testing.B) {
				p99 := measure(b, g, s.Name, g, faulty.Name)
				b.ReportMetric(float64(p99)/float64(none), "p99/none")
				b.ReportMetric(float64(p99)/float64(apart), "p99/apart")
			})
			faulty.set(b, "")
		}
	}
}

// others is how many clients call the second upstream, and othersPace the time between two calls of each.
const (
	others     = 4
	othersPace = 10 * time.Millisecond
)

// measure calls the bystander b.N times, while other clients call the second upstream through their gateway. It reports quantiles and returns the
// 99th percentile.
func measure(b *testing.B, g *gateway, bystander string, theirs *gateway, second string) (p99 time.Duration) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var wg sync.WaitGroup
	c, other := open(b, g.Gateway, raw.Modern), open(b, theirs.Gateway, raw.Modern)
	for range others {
		wg.Go(func() {
			pace := time.NewTicker(othersPace)
			defer pace.Stop()
			for ctx.Err() == nil {
				_, _ = work(ctx, other, second, "x", false) // it may fail
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	took := make([]time.Duration, 0, b.N)
	for n := 0; b.Loop(); n++ {
		text := fmt.Sprint(n)
		began := time.Now()
		answer, err := work(ctx, c, bystander, text, false)
		took = append(took, time.Since(began))
		if err := checkAnswer(answer, err, text); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	at := func(share float64) time.Duration { return took[int(float64(len(took)-1)*share)] }
	b.ReportMetric(at(0.5).Seconds()*1000, "p50-ms")
	b.ReportMetric(at(0.99).Seconds()*1000, "p99-ms")
	cancel()
	wg.Wait()
	return at(0.99)
}
