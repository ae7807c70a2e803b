package main

import (
	"strings"
	"testing"
	"time"
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

// rated returns results with these rates, one sample each.
func rated(rates map[string][]float64) *results {
	var r results
	for _, path := range allPaths {
		for _, rate := range rates[path] {
			r.add(path, sample{PerSecond: rate, P50: time.Millisecond, P99: 3 * time.Millisecond, CPU: 70 * time.Microsecond})
		}
	}
	return &r
}

func TestReport(t *testing.T) {
	r := rated(map[string][]float64{
		pathDirect:  {400, 500, 390},
		pathReverse: {100, 90, 110},
		pathGateway: {150, 10, 160},
	})
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `
      path   calls/s   min   max   p50   p99   cpu/call   × reverse   × typed
    direct       400   390   500   1ms   3ms       70µs        4.00         -
   reverse       100    90   110   1ms   3ms       70µs        1.00         -
   gateway       150    10   160   1ms   3ms       70µs        1.50         -
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

func TestRequire(t *testing.T) {
	tests := []struct {
		name           string
		rates          map[string][]float64
		reverse, typed float64
		want           string
	}{
		{"exactly met", map[string][]float64{pathReverse: {100}, pathTyped: {50}, pathGateway: {150}}, 1.5, 3, ""},
		{"medians count", map[string][]float64{pathReverse: {100, 100, 100}, pathGateway: {1, 100, 100}}, 1, 0, ""},
		{"no requirement", map[string][]float64{pathReverse: {100}, pathGateway: {1}}, 0, 0, ""},
		{"neither met", map[string][]float64{pathReverse: {100}, pathTyped: {50}, pathGateway: {99}}, 1, 3,
			"the gateway reaches 0.99 × reverse, 1.00 × is required\nthe gateway reaches 1.98 × typed, 3.00 × is required"},
		{"not measured", map[string][]float64{pathGateway: {99}}, 1, 0, "the gateway reaches - × reverse, 1.00 × is required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := rated(tt.rates).require(tt.reverse, tt.typed); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
