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
// not fail either, and then one with each fault. It asserts nothing. Run it alone: go test ./test/faults/matrix -run '^$' -bench Others -benchtime 500x
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
		g := startGateway(b, f, upstreams, nil)
		calm := f.servers[cell{hangs, transport, ""}]
		b.Run(transport+"/none", func(b *testing.B) { measure(b, g, s.Name, calm.Name) })
		for _, c := range cellsOf(transport, atCall) {
			faulty := f.servers[cell{c.kind, transport, ""}]
			b.Run(transport+"/"+c.kind, func(b *testing.B) {
				faulty.set(b, c.kind+" "+atCall)
				measure(b, g, s.Name, faulty.Name)
				faulty.set(b, "")
			})
		}
	}
}

// others is how many clients call the second upstream, and othersPace the time between two calls of each.
const (
	others     = 4
	othersPace = 10 * time.Millisecond
)

// measure calls the bystander b.N times, while other clients call the second upstream, and reports quantiles.
func measure(b *testing.B, g *gateway, bystander, second string) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var wg sync.WaitGroup
	c := open(b, g.Gateway, raw.Modern)
	for range others {
		wg.Go(func() {
			pace := time.NewTicker(othersPace)
			defer pace.Stop()
			for ctx.Err() == nil {
				_, _ = work(ctx, c, second, "x", false) // it may fail
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
	for name, share := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99} {
		b.ReportMetric(took[int(float64(len(took)-1)*share)].Seconds()*1000, name)
	}
	cancel()
	wg.Wait()
}
