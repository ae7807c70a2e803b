package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the outcome of a run, the content of the JSON file.
type report struct {
	Time      time.Time         `json:"time"`
	Commit    string            `json:"commit"`
	Machine   string            `json:"machine"`
	CPUs      int               `json:"cpus"`
	Versions  map[string]string `json:"versions"`
	Turns     int               `json:"turns"`
	Duration  string            `json:"duration"` // of one measurement of calls
	Workloads []*outcome        `json:"workloads"`
	Profiles  []profiled        `json:"profiles,omitempty"`
}

// outcome is the outcome of a workload.
type outcome struct {
	Name   string         `json:"name"`
	About  string         `json:"about"`
	Failed string         `json:"failed,omitempty"`
	Paths  []pathOutcome  `json:"paths"`
	Ratios []ratioOutcome `json:"ratios"`

	samples map[string][]sample // by path, in order of the turns
}

type pathOutcome struct {
	Name    string            `json:"name"`
	Figures map[metric]spread `json:"figures"`
}

type ratioOutcome struct {
	Name        string `json:"name"`
	Metric      metric `json:"metric"`
	Of          string `json:"of"`
	To          string `json:"to,omitempty"`
	Want        string `json:"want,omitempty"`
	Requirement int    `json:"requirement,omitempty"`
	Met         bool   `json:"met"`
	spread
}

// summarize fills in the paths and ratios from the samples.
func (o *outcome) summarize(w workload) {
	for _, p := range w.Paths {
		samples := o.samples[p.Name]
		if len(samples) == 0 {
			continue
		}
		figures := make(map[metric]spread)
		for m := range samples[0] {
			figures[m] = spreadOf(column(samples, m))
		}
		o.Paths = append(o.Paths, pathOutcome{p.Name, figures})
	}
	for _, r := range w.Ratios {
		values := o.quotients(r.Metric, r.Of, r.To)
		if r.ByOf != "" {
			values = divide(values, o.quotients(r.Metric, r.ByOf, r.ByTo))
		}
		if len(values) == 0 {
			continue // a path was left out
		}
		s := spreadOf(values)
		o.Ratios = append(o.Ratios, ratioOutcome{
			Name: r.Name(), Metric: r.Metric, Of: r.Of, To: r.To, Want: r.want(), Requirement: r.Requirement, Met: r.met(s.Median), spread: s,
		})
	}
}

// quotients returns the figures of a path by those of another one in the same turn, or the
// figures themselves without another one.
func (o *outcome) quotients(m metric, of, to string) []float64 {
	values := column(o.samples[of], m)
	if to == "" {
		return values
	}
	return divide(values, column(o.samples[to], m))
}

// divide divides the values by those of the same turn, as far as there are both.
func divide(values, by []float64) []float64 {
	values = values[:min(len(values), len(by))]
	for i := range values {
		values[i] /= by[i]
	}
	return values
}

// column returns one figure of all samples.
func column(samples []sample, m metric) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = s[m]
	}
	return values
}

// newReport returns a report about this machine without workloads.
func newReport(o options, nginx string) *report {
	r := &report{
		Time: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: machine(), CPUs: runtime.NumCPU(),
		Versions: map[string]string{"go": runtime.Version()}, Turns: o.Turns, Duration: o.load.Duration.String(),
	}
	if nginx != "" {
		r.Versions["nginx"] = nginxVersion(nginx)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if strings.HasSuffix(dep.Path, "/go-sdk") {
				r.Versions["go-sdk"] = dep.Version
			}
		}
	}
	return r
}

// commit returns the commit of the sources, "" if there is no repository.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// write stores the report as JSON.
func (r *report) write(file string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// A line for each workload and profile keeps differences readable.
	data = bytes.ReplaceAll(data, []byte(`{"name":`), []byte("\n"+`{"name":`))
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// readReport reads the JSON file of a run.
func readReport(file string) (*report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}

// figuresShown are the metrics of the table of paths, in the order of its
// columns.
var figuresShown = []metric{perSecond, p50, p99, cpu, resident, each, ofSize, toReady, toCall, toLast}

// print writes a workload as two tables.
func (o *outcome) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s: %s\n", o.Name, o.About)
	if o.Failed != "" {
		_, err := fmt.Fprintf(w, "FAILED: %s\n", o.Failed)
		return err
	}
	shown := o.shown()
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "path\t")
	for _, m := range shown {
		fmt.Fprintf(tw, "%s\t", m.column())
	}
	fmt.Fprintln(tw)
	for _, p := range o.Paths {
		fmt.Fprintf(tw, "%s\t", p.Name)
		for _, m := range shown {
			if s, ok := p.Figures[m]; ok {
				fmt.Fprintf(tw, "%s\t", number(s.Median))
			} else {
				fmt.Fprint(tw, "-\t")
			}
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	tw = tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range o.Ratios {
		fmt.Fprintf(tw, "  %s\t%.2f\t%.2f to %.2f\t%s\t%s\n", r.Name, r.Median, r.Min, r.Max, r.Want, r.verdict())
	}
	return tw.Flush()
}

// shown returns the metrics that a path of the workload has.
func (o *outcome) shown() []metric {
	return slices.DeleteFunc(slices.Clone(figuresShown), func(m metric) bool {
		return !slices.ContainsFunc(o.Paths, func(p pathOutcome) bool { _, ok := p.Figures[m]; return ok })
	})
}

// verdict says whether the requirement is met, "" if there is none.
func (r ratioOutcome) verdict() string {
	switch {
	case r.Requirement == 0:
		return ""
	case r.Met:
		return fmt.Sprintf("met (%d)", r.Requirement)
	}
	return fmt.Sprintf("NOT MET (%d)", r.Requirement)
}

// number formats a figure with three digits, without an exponent.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
