package inspect

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// HistoryStep is the time between two samples of a [History].
	HistoryStep = 10 * time.Second
	// HistoryLength is how many intervals between samples a History keeps.
	HistoryLength = 90
	// historyWindow is how many intervals the numbers of now are made of.
	historyWindow = 6
)

// History keeps the traffic of the last minutes. Somebody has to call Sample every HistoryStep; calls of
// clients do nothing for it. The methods may be called concurrently.
type History struct {
	metrics prometheus.Gatherer
	slowest Slowest

	mu      sync.Mutex
	samples []sample // the last historyWindow+1, the oldest first
	points  map[string][]Point
}

// sample has the values of the metrics at one time.
type sample struct {
	at  time.Time
	all *measured
}

// Point is the traffic between two samples.
type Point struct {
	At     time.Time // of the second sample
	Calls  int
	Failed int     // with an error, or that the upstream could not get
	P95    float64 // in seconds; -1 without calls
}

// Rates are the traffic of the last minute.
type Rates struct {
	PerSecond     float64
	Calls, Failed int
	P50, P95, P99 float64 // in seconds; -1 without calls
}

// NewHistory returns a history without samples.
func NewHistory(metrics prometheus.Gatherer, slowest Slowest) *History {
	return &History{metrics: metrics, slowest: slowest, points: make(map[string][]Point)}
}

// Sample reads the metrics. A time without readable metrics leaves a longer interval.
func (h *History) Sample(now time.Time) {
	all, err := gather(h.metrics, h.slowest)
	if err != nil {
		return
	}
	all.upstreams[""] = all.total()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) > 0 {
		before := h.samples[len(h.samples)-1].all
		for name := range h.points {
			if all.upstreams[name] == nil { // a reload has removed it
				delete(h.points, name)
			}
		}
		for name, t := range all.upstreams {
			d := t.since(before.upstreams[name])
			kept := append(h.points[name], Point{At: now, Calls: int(d.calls), Failed: int(d.failed), P95: d.quantileOr(0.95, -1)})
			if len(kept) > HistoryLength {
				kept = append(kept[:0], kept[len(kept)-HistoryLength:]...)
			}
			h.points[name] = kept
		}
	}
	if h.samples = append(h.samples, sample{now, all}); len(h.samples) > historyWindow+1 {
		h.samples = append(h.samples[:0], h.samples[1:]...)
	}
}

// Points returns the intervals of an upstream, or with "" of all together, the oldest first. It returns none
// for an upstream without calls.
func (h *History) Points(upstream string) []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Point(nil), h.points[upstream]...)
}

// Rates returns the traffic of the last minute of an upstream, or with "" of all together.
func (h *History) Rates(upstream string) Rates {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) < 2 {
		return Rates{P50: -1, P95: -1, P99: -1}
	}
	first, last := h.samples[0], h.samples[len(h.samples)-1]
	t := last.all.upstreams[upstream]
	if t == nil {
		return Rates{P50: -1, P95: -1, P99: -1}
	}
	d := t.since(first.all.upstreams[upstream])
	return Rates{
		PerSecond: d.calls / last.at.Sub(first.at).Seconds(), Calls: int(d.calls), Failed: int(d.failed),
		P50: d.quantileOr(0.5, -1), P95: d.quantileOr(0.95, -1), P99: d.quantileOr(0.99, -1),
	}
}

// total returns the traffic of all upstreams.
func (m *measured) total() *traffic {
	sum := &traffic{counts: make(map[float64]uint64)}
	for _, t := range m.upstreams {
		sum.calls += t.calls
		sum.failed += t.failed
		sum.total += t.total
		sum.slowest = max(sum.slowest, t.slowest)
		for bound, n := range t.counts {
			sum.counts[bound] += n
		}
	}
	return sum
}

// since returns the traffic after an earlier one, which may be nil. Counters never go back while the process
// runs.
func (t *traffic) since(before *traffic) *traffic {
	if before == nil {
		return t
	}
	d := &traffic{calls: t.calls - before.calls, failed: t.failed - before.failed, total: t.total - before.total, slowest: t.slowest, counts: make(map[float64]uint64, len(t.counts))}
	for bound, n := range t.counts {
		d.counts[bound] = n - before.counts[bound]
	}
	return d
}

func (t *traffic) quantileOr(q, without float64) float64 {
	if v := t.quantile(q); v != nil {
		return *v
	}
	return without
}
