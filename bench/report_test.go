package main

import (
	"strings"
	"testing"
)

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	tests := []struct {
		name   string
		sorted []int
		q      float64
		want   int
	}{
		{"median of an odd number", []int{1, 2, 9}, 0.5, 2},
		{"lower median of an even number", []int{1, 2, 3, 9}, 0.5, 2},
		{"p99 of a hundred", hundred, 0.99, 99},
		{"maximum", hundred, 1, 100},
		{"of one", []int{7}, 0.99, 7},
		{"of two", []int{7, 8}, 0.99, 8},
	}
	for _, tt := range tests {
		if got := quantile(tt.sorted, tt.q); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := median([]int{9, 1, 2}); got != 2 {
		t.Errorf("median of unsorted values: %d, want 2", got)
	}
}

func TestRound(t *testing.T) {
	for x, want := range map[float64]float64{123456.7: 123460, 1.234567: 1.2346, 0.000123456: 0.00012346, 0: 0, -98765.4: -98765} {
		if got := round(x); got != want {
			t.Errorf("round(%v) = %v, want %v", x, got, want)
		}
	}
}

// rated returns the outcome of a workload with these rates in its turns.
func rated(w workload, rates map[string][]float64) *outcome {
	o := &outcome{Name: w.Name, About: w.About, samples: make(map[string][]sample)}
	for name, values := range rates {
		for _, rate := range values {
			o.samples[name] = append(o.samples[name], sample{perSecond: rate, p99: 3000})
		}
	}
	o.summarize(w)
	return o
}

// Ratios are formed within each turn, so that a slow turn changes none of them.
func TestReport(t *testing.T) {
	w := workload{
		Name: "test", About: "A test.",
		Paths: []path{{Name: viaReverse}, {Name: viaNginx}, {Name: viaGateway}, {Name: pathFull}},
		Ratios: []ratio{
			{Metric: perSecond, Of: viaGateway, To: viaReverse, AtLeast: 1.5, Requirement: 1},
			{Metric: perSecond, Of: viaGateway, To: viaNginx, AtLeast: 1, Requirement: 1},
			{Metric: p99, Of: viaGateway, AtMost: 2000, Requirement: 2},
			{Metric: p99, Of: viaGateway, To: viaReverse},
			{Metric: perSecond, Of: viaGateway, To: viaReverse, ByOf: pathFull, ByTo: viaReverse},
		},
	}
	o := rated(w, map[string][]float64{viaReverse: {100, 10, 200}, viaGateway: {150, 15, 310}, pathFull: {50, 5, 100}})
	var b strings.Builder
	if err := o.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `
test: A test.
      path   per second   p99 in µs
   reverse          100        3000
   gateway          150        3000
      full         50.0        3000
  gateway / reverse                        1.50      1.50 to 1.55         ≥ 1.5    met (1)
  gateway, p99                             3000.00   3000.00 to 3000.00   ≤ 2000   NOT MET (2)
  gateway / reverse, p99                   1.00      1.00 to 1.00                  
  (gateway / reverse) / (full / reverse)   3.00      3.00 to 3.10                  
`
	if got := b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
	r := &report{Workloads: []*outcome{o}}
	if got := strings.Join(r.missed(), "\n"); got != "2. test: gateway, p99 is 3000.00, want ≤ 2000" {
		t.Errorf("missed: %s", got)
	}
}

// Each ratio is of paths that its workload has, and requirements have a bound.
func TestTable(t *testing.T) {
	names := make(map[string]bool)
	for _, w := range workloads(1) {
		if names[w.Name] {
			t.Errorf("two workloads have the name %s", w.Name)
		}
		names[w.Name] = true
		paths := make(map[string]bool)
		for _, p := range w.Paths {
			paths[p.Name] = true
		}
		for _, r := range w.Ratios {
			if !paths[r.Of] || r.To != "" && !paths[r.To] || r.ByOf != "" && (!paths[r.ByOf] || !paths[r.ByTo]) {
				t.Errorf("%s: the ratio %s has an unknown path", w.Name, r.Name())
			}
			if bounded := r.AtLeast != 0 || r.AtMost != 0; bounded != (r.Requirement != 0) {
				t.Errorf("%s: the ratio %s has a bound: %t", w.Name, r.Name(), bounded)
			}
		}
	}
}
