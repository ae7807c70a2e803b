package main

import (
	"context"
	"fmt"
	"strings"
)

// metric names a figure of a sample, with its unit.
type metric string

const (
	perSecond metric = "rate"       // calls, pages or sessions in a second
	p50       metric = "p50_us"     // median duration in microseconds
	p99       metric = "p99_us"     // 99th percentile in microseconds
	cpu       metric = "cpu_us"     // processor time of the measured process for one call, in microseconds
	resident  metric = "rss_mib"    // resident memory of the measured process in MiB
	each      metric = "each_kib"   // memory for each idle stream in KiB
	ofSize    metric = "times_size" // memory for each call in flight, as a multiple of the size of its message
	toReady   metric = "ready_ms"   // from the start of a process to its readiness, in milliseconds
	toCall    metric = "first_ms"   // from the start of a process to the first answer, in milliseconds
	toLast    metric = "last_ms"    // from an update to its arrival at the last subscriber, in milliseconds
)

// sample holds the figures of one measurement of one path.
type sample map[metric]float64

// String lists the figures for the progress of a run.
func (s sample) String() string {
	var b strings.Builder
	for _, m := range figuresShown {
		if value, ok := s[m]; ok {
			fmt.Fprintf(&b, ", %s %s", number(value), m.column())
		}
	}
	return b.String()
}

// measure takes one measurement. It fails if any answer was wrong.
type measure func(ctx context.Context) (sample, error)

// path is one of the compared ways in a workload.
type path struct {
	Name string
	// Start starts the processes of the path, unless measure does it, and prepares
	// the measurement. The stage ends the processes.
	Start func(ctx context.Context, s *stage) (measure, error)
	// Via is the way to the upstream. -compare repeats a path via the gateway with
	// the other binary.
	Via     string
	Metrics []metric // that -compare compares; default: those of calls
}

// ratio compares a figure of two paths within each turn. Without To it is the
// figure itself, in the unit of its metric.
type ratio struct {
	Metric metric
	Of, To string // paths
	// ByOf and ByTo are two other paths, whose ratio divides this one. They are "" for most.
	ByOf, ByTo string
	AtLeast    float64
	AtMost     float64
	// Requirement is the number of the line of the requirements that demands
	// AtLeast or AtMost. It is 0 if the ratio is for information only.
	Requirement int
}

// Name returns the text that identifies the ratio within its workload.
func (r ratio) Name() string {
	name := r.Of
	if r.To != "" {
		name += " / " + r.To
	}
	if r.ByOf != "" {
		name = fmt.Sprintf("(%s) / (%s / %s)", name, r.ByOf, r.ByTo)
	}
	if r.Metric != perSecond {
		name += ", " + r.Metric.label()
	}
	return name
}

// met reports whether a value fulfills the requirement.
func (r ratio) met(value float64) bool {
	return (r.AtLeast == 0 || value >= r.AtLeast) && (r.AtMost == 0 || value <= r.AtMost)
}

// want returns the requirement as text, "" if there is none.
func (r ratio) want() string {
	switch {
	case r.AtLeast != 0:
		return fmt.Sprintf("≥ %.4g", r.AtLeast)
	case r.AtMost != 0:
		return fmt.Sprintf("≤ %.4g", r.AtMost)
	}
	return ""
}

// label returns the name of a metric for readers, after a number or the name of
// a ratio.
func (m metric) label() string {
	switch m {
	case p50, p99, cpu:
		name, _, _ := strings.Cut(string(m), "_")
		return name
	}
	return m.column()
}

// column returns the heading of the column with the metric.
func (m metric) column() string {
	switch m {
	case perSecond:
		return "per second"
	case p50:
		return "p50 in µs"
	case p99:
		return "p99 in µs"
	case cpu:
		return "CPU per call in µs"
	case resident:
		return "RSS in MiB"
	case each:
		return "KiB each"
	case ofSize:
		return "times the size"
	case toReady:
		return "ms to ready"
	case toCall:
		return "ms to the first answer"
	case toLast:
		return "ms to the last"
	}
	return string(m)
}

// workload is a named set of paths that are measured back to back in each turn.
type workload struct {
	Name   string
	About  string // a sentence for the report
	Paths  []path
	Ratios []ratio
	// Together measures all paths at the same time, so that what the machine does beside them changes none
	// of the ratios. It is for ratios of processor time near 1; rates would compete.
	Together bool
}
