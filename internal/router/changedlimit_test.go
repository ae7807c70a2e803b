package router

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
)

// A reload that changes a limit keeps the calls that were counted: a raised limit adds the difference at
// once, and a lowered one lets no more calls through than the new one.
func TestChangedLimit(t *testing.T) {
	const minute = 1. / 60
	part := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{})}, []catalog.Source{filesSource(t)}).Parts()[0]
	rate := func(perMinute, burst int) policy.Limit {
		return policy.Limit{Rule: "some", Rate: float64(perMinute) * minute, Burst: burst}
	}
	running := func(n int) policy.Limit { return policy.Limit{Rule: "some", Concurrent: n} }
	type step struct {
		pause   time.Duration
		limit   policy.Limit
		allowed int           // calls until one is refused
		wait    time.Duration // that the refusal says
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"unchanged", []step{{0, rate(2, 2), 2, 30 * time.Second}, {29 * time.Second, rate(2, 2), 0, time.Second}, {time.Second, rate(2, 2), 1, 30 * time.Second}}},
		{"raised", []step{{0, rate(2, 2), 2, 30 * time.Second}, {0, rate(10, 10), 8, 6 * time.Second}, {12 * time.Second, rate(10, 10), 2, 6 * time.Second}}},
		{"burst raised", []step{{0, rate(60, 3), 3, time.Second}, {0, rate(60, 5), 2, time.Second}}},
		{"rate raised", []step{{0, rate(6, 2), 2, 10 * time.Second}, {0, rate(60, 2), 0, time.Second}, {time.Second, rate(60, 2), 1, time.Second}}},
		{"partly used and raised", []step{{0, rate(10, 10), 10, 6 * time.Second}, {30 * time.Second, rate(20, 20), 20, 3 * time.Second}}},
		// Calls counted at the higher rate are forgotten at that rate, so nobody waits for a thousand calls at the lower one.
		{"lowered", []step{{0, rate(10, 10), 10, 6 * time.Second}, {0, rate(2, 2), 0, 54 * time.Second}, {54 * time.Second, rate(2, 2), 1, 30 * time.Second}, {30 * time.Second, rate(2, 2), 1, 30 * time.Second}}},
		{"burst lowered", []step{{0, rate(60, 4), 4, time.Second}, {0, rate(60, 2), 0, 3 * time.Second}, {3 * time.Second, rate(60, 2), 1, time.Second}}},
		{"lowered and idle", []step{{0, rate(10, 10), 10, 6 * time.Second}, {time.Hour, rate(2, 2), 2, 30 * time.Second}}},
		{"to and fro", []step{{0, rate(2, 2), 2, 30 * time.Second}, {0, rate(10, 10), 8, 6 * time.Second}, {0, rate(2, 2), 0, 54 * time.Second}, {0, rate(10, 10), 0, 6 * time.Second}}},
		{"removed and back", []step{{0, rate(2, 2), 2, 30 * time.Second}, {0, running(5), 3, time.Second}, {0, rate(2, 2), 0, 30 * time.Second}}},
		{"concurrency raised", []step{{0, running(2), 2, time.Second}, {0, running(5), 3, time.Second}}},
		{"concurrency lowered", []step{{0, running(5), 5, time.Second}, {0, running(2), 0, time.Second}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &limiter{now: time.Now}
				c, target := &call.Call{Principal: &call.Principal{Subject: "ann"}}, catalog.Target{Part: part}
				for i, s := range tt.steps {
					time.Sleep(s.pause)
					limits := []*policy.Limit{&s.limit}
					for n := range s.allowed {
						if refusal := l.peek(limits, c, target); refusal != nil {
							t.Fatalf("step %d: call %d would be refused: %s", i, n, refusal)
						}
						if _, refusal := l.take(limits, c, target); refusal != nil {
							t.Fatalf("step %d: call %d is refused: %s", i, n, refusal)
						}
					}
					for what, refusal := range map[string]*excess{"peek": l.peek(limits, c, target), "take": second(l.take(limits, c, target))} {
						if refusal == nil || refusal.limit != s.limit || refusal.wait.Round(time.Millisecond) != s.wait {
							t.Errorf("step %d: %s after %d calls: %+v, want a wait of %v", i, what, s.allowed, refusal, s.wait)
						}
					}
				}
			})
		})
	}
}

func second[A, B any](_ A, b B) B { return b }
