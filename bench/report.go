package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// quantile returns the nearest-rank quantile q in (0, 1] of a sorted slice, which
// must not be empty.
func quantile[T any](sorted []T, q float64) T {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median returns the median of values, which must not be empty. It returns the
// lower middle value of an even number, so that the median is a measured value.
func median[T cmp.Ordered](values []T) T {
	return quantile(slices.Sorted(slices.Values(values)), 0.5)
}

// summary is the outcome of a path over all rounds: medians, and the range of the
// rate.
type summary struct {
	Path               string
	Rate, Min, Max     float64 // calls a second
	P50, P99           time.Duration
	CPU                time.Duration // of the measured process for one call
	OfReverse, OfTyped float64       // ratio of the rates; NaN if the proxy did not run
}

// results are the samples of each path, in the order of the first rounds.
type results struct {
	paths   []string
	samples map[string][]sample
}

func (r *results) add(path string, s sample) {
	if r.samples == nil {
		r.samples = make(map[string][]sample)
	}
	if r.samples[path] == nil {
		r.paths = append(r.paths, path)
	}
	r.samples[path] = append(r.samples[path], s)
}

// rate returns the median rate of a path, NaN if the path did not run.
func (r *results) rate(path string) float64 {
	if len(r.samples[path]) == 0 {
		return math.NaN()
	}
	return median(column(r.samples[path], func(s sample) float64 { return s.PerSecond }))
}

func (r *results) summarize() []summary {
	var all []summary
	for _, path := range r.paths {
		samples := r.samples[path]
		rates := column(samples, func(s sample) float64 { return s.PerSecond })
		all = append(all, summary{
			Path:      path,
			Rate:      r.rate(path),
			Min:       slices.Min(rates),
			Max:       slices.Max(rates),
			P50:       median(column(samples, func(s sample) time.Duration { return s.P50 })),
			P99:       median(column(samples, func(s sample) time.Duration { return s.P99 })),
			CPU:       median(column(samples, func(s sample) time.Duration { return s.CPU })),
			OfReverse: r.rate(path) / r.rate(pathReverse),
			OfTyped:   r.rate(path) / r.rate(pathTyped),
		})
	}
	return all
}

func column[T any](samples []sample, of func(sample) T) []T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return values
}

// print writes the table of the summaries.
func (r *results) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "path\tcalls/s\tmin\tmax\tp50\tp99\tcpu/call\t× reverse\t× typed\t")
	for _, s := range r.summarize() {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t\n", s.Path, s.Rate, s.Min, s.Max,
			s.P50.Round(time.Microsecond), s.P99.Round(time.Microsecond), s.CPU.Round(time.Microsecond), ratio(s.OfReverse), ratio(s.OfTyped))
	}
	return tw.Flush()
}

func ratio(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

// require returns an error unless the gateway's median rate is at least these
// multiples of the proxies' medians. 0 requires nothing. A ratio with a path that
// did not run fails.
func (r *results) require(reverse, typed float64) error {
	check := func(proxy string, want float64) error {
		got := r.rate(pathGateway) / r.rate(proxy)
		if want == 0 || got >= want {
			return nil
		}
		return fmt.Errorf("the gateway reaches %s × %s, %.2f × is required", ratio(got), proxy, want)
	}
	return errors.Join(check(pathReverse, reverse), check(pathTyped, typed))
}
