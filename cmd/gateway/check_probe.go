package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
)

// probeItems bounds how many items of each kind a probe requests of one upstream.
var probeItems = [call.Kinds]int{call.Tool: 200, call.Prompt: 50, call.Resource: 20}

// writeProbes prints the results of probes for people.
func writeProbes(r *inspect.Report, out io.Writer, s console.Style, columns int) error {
	if len(r.Probes) == 0 {
		return nil
	}
	var rows [][]string
	var others []inspect.ProbeReport // counted in one row
	flush := func() {
		if len(others) > 0 {
			first := others[0]
			has := func(row []string) bool { return row[0] == first.Upstream && row[1] == first.Kind }
			item := fmt.Sprintf("%d more", len(others))
			switch {
			case len(others) == 1:
				item = console.Line(console.Cut(first.Item, 60))
			case !slices.ContainsFunc(rows, has):
				item = console.Count(len(others), first.Kind)
			}
			rows = append(rows, []string{first.Upstream, first.Kind, item, "-", s.Dim(probeText(first))})
		}
		others = nil
	}
	sum := func(p inspect.ProbeReport) bool {
		return p.Outcome == inspect.ProbeSkipped.String() && len(p.Needs) == 0
	}
	for _, p := range slices.Concat(each(r.Probes, sum, false), each(r.Probes, sum, true)) {
		if sum(p) {
			if len(others) > 0 && probeGroup(others[0]) != probeGroup(p) {
				flush()
			}
			others = append(others, p)
			continue
		}
		result := console.Line(probeText(p))
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

// each returns the probes for which is returns the wanted value, in the order of upstreams and kinds.
func each(all []inspect.ProbeReport, is func(inspect.ProbeReport) bool, holds bool) (some []inspect.ProbeReport) {
	for _, p := range all {
		if is(p) == holds {
			some = append(some, p)
		}
	}
	return some
}

// probeGroup is equal for items that are skipped for the same reason.
func probeGroup(p inspect.ProbeReport) string {
	return strings.Join([]string{p.Upstream, p.Kind, p.Why}, "\x00")
}

// probeText is the result for an item on one line.
func probeText(p inspect.ProbeReport) string {
	asked := ""
	if p.Asked > 0 {
		asked = "; it had " + console.Count(p.Asked, "question") + ", which nobody answered"
	}
	switch p.Outcome {
	case inspect.ProbeOK.String():
		return "ok" + asked
	case inspect.ProbeViolations.String():
		return console.Count(p.Violations, "violation") + asked
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
