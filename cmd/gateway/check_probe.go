package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
)

// probeItems is how many items of each kind a probe asks one upstream for.
var probeItems = [call.Kinds]int{call.Tool: 200, call.Prompt: 50, call.Resource: 20}

// probed is what became of one item. Its JSON is part of what --json prints.
type probed struct {
	Upstream  string          `json:"upstream"`
	Kind      string          `json:"kind"`   // tool, prompt or resource
	Item      string          `json:"item"`   // native name or URI
	Public    string          `json:"public"` // the public one
	Method    string          `json:"method"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Outcome   string          `json:"outcome"` // ok, faults, tool_error, error, lost, timeout or skipped
	Why       string          `json:"why,omitempty"`
	Needs     []string        `json:"needs,omitempty"` // arguments for want of which it is skipped
	Faults    int             `json:"faults"`
	Asked     int             `json:"asked,omitempty"` // questions that it had, which nobody answered
	Seconds   float64         `json:"seconds"`
}

// try looks at answers of the upstreams that are to be probed.
func (o *checkOptions) try(ctx context.Context, v *gateway.InProcess, screen *console.Screen, report *checked, met map[string]checkedUpstream) error {
	for _, name := range o.probe {
		if u := met[name]; u.Revision == "" || slices.ContainsFunc(report.Probes, func(p probed) bool { return p.Upstream == name }) {
			continue // it is not there, or was named twice
		}
		screen.Status("probing " + name)
		for _, p := range v.Probe(ctx, name, inspect.ProbeLimits{Call: o.callTimeout, Items: probeItems}) {
			faults := report.add(p)
			u := met[name]
			u.Faults += faults
			met[name] = u
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// add writes down what became of one item, and returns how many faults its answer
// has.
func (r *checked) add(p *inspect.ProbeResult) int {
	faults := len(p.Verdict.Violations) + p.Verdict.More
	r.Probes = append(r.Probes, probed{
		Upstream: p.Upstream, Kind: p.Kind.String(), Item: p.Native, Public: p.Public, Method: p.Method, Arguments: json.RawMessage(p.Arguments),
		Outcome: p.Outcome.String(), Why: p.Reason, Needs: p.Missing, Faults: faults, Asked: p.Asks, Seconds: p.Took.Seconds(),
	})
	about := finding{
		Severity: severityWarning, Upstream: p.Upstream, Kind: p.Kind.String(), Item: p.Native, Public: p.Public, Method: p.Method,
	}
	for _, f := range p.Verdict.Violations {
		found := about
		found.What, found.Message, found.Against, found.Mended = "nonconforming", f.String(), f.Kind.String(), f.Repaired
		r.Findings = append(r.Findings, found)
	}
	switch {
	case p.Verdict.Refused:
		about.Severity, about.What, about.Message = severityError, "refused", "clients get an error in its place, as the upstream's conformance demands"
	case p.Outcome == inspect.ProbeLost:
		about.Severity, about.What, about.Message = severityError, "lost", p.Reason
	case p.Outcome == inspect.ProbeError, p.Outcome == inspect.ProbeTimeout:
		about.What, about.Message = p.Outcome.String(), p.Reason
	default:
		return faults
	}
	r.Findings = append(r.Findings, about)
	return faults
}

// writeProbes is what became of the probes, for people.
func (r *checked) writeProbes(out io.Writer, s console.Style, columns int) error {
	if len(r.Probes) == 0 {
		return nil
	}
	var rows [][]string
	var others []probed // of which the next are counted in one row
	flush := func() {
		if len(others) > 0 {
			first := others[0]
			rows = append(rows, []string{first.Upstream, first.Kind, fmt.Sprintf("%d more", len(others)), "-", s.Dim(first.result())})
		}
		others = nil
	}
	sum := func(p probed) bool { return p.Outcome == inspect.ProbeSkipped.String() && len(p.Needs) == 0 }
	for _, p := range slices.Concat(each(r.Probes, sum, false), each(r.Probes, sum, true)) {
		if sum(p) {
			if len(others) > 0 && others[0].group() != p.group() {
				flush()
			}
			others = append(others, p)
			continue
		}
		result := console.Line(p.result())
		took := fmt.Sprintf("%.1fs", p.Seconds)
		switch p.Outcome {
		case inspect.ProbeOK.String():
			result = s.Good(result)
		case inspect.ProbeSkipped.String():
			result, took = s.Dim(result), "-"
		case inspect.ProbeLost.String():
			result = s.Bad(result)
		default:
			result = s.Warn(result)
		}
		rows = append(rows, []string{p.Upstream, p.Kind, console.Line(console.Cut(p.Item, 60)), took, result})
	}
	flush()
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return console.Table(out, s, columns, []string{"PROBED", "KIND", "ITEM", "TIME", "RESULT"}, rows)
}

// each returns those of which is holds, or does not, in the order of upstreams and
// kinds.
func each(all []probed, is func(probed) bool, holds bool) (some []probed) {
	for _, p := range all {
		if is(p) == holds {
			some = append(some, p)
		}
	}
	return some
}

// group is equal for items that are skipped for the same reason.
func (p probed) group() string { return strings.Join([]string{p.Upstream, p.Kind, p.Why}, "\x00") }

// result is what became of an item, in one line.
func (p probed) result() string {
	asked := ""
	if p.Asked > 0 {
		asked = "; it had " + console.Count(p.Asked, "question") + ", which nobody answered"
	}
	switch p.Outcome {
	case inspect.ProbeOK.String():
		return "ok" + asked
	case inspect.ProbeViolations.String():
		return console.Count(p.Faults, "fault") + asked
	case inspect.ProbeFailed.String():
		return "ok, the tool failed: " + console.Cut(console.Line(p.Why), maxAbout) + asked
	case inspect.ProbeSkipped.String():
		not := map[string]string{call.Tool.String(): "not called", call.Prompt.String(): "not got", call.Resource.String(): "not read"}[p.Kind]
		if len(p.Needs) > 0 {
			return not + ": needs " + strings.Join(p.Needs, ", ")
		}
		return not + ": " + p.Why
	default:
		return cmp.Or(p.Why, p.Outcome) + asked
	}
}
