package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
)

// print prints the findings, and fails if one is an error.
func (o *checkOptions) print(cmd *cobra.Command, report *inspect.Report) error {
	report.OK = !slices.ContainsFunc(report.Findings, func(f inspect.Finding) bool { return f.Severity == inspect.SeverityError })
	out := cmd.OutOrStdout()
	err := error(nil)
	if o.json {
		err = printJSON(out, report)
	} else {
		// Nothing is known of upstreams that were not checked.
		report.Upstreams = slices.DeleteFunc(report.Upstreams, func(u inspect.UpstreamReport) bool { return o.offline || !o.wanted(u.Name) })
		err = writeReport(report, out, console.StyleOf(out, lookupEnv), console.Columns(out))
	}
	if err == nil && !report.OK {
		return errReported
	}
	return err
}

// writeReport prints a report for people.
func writeReport(r *inspect.Report, out io.Writer, s console.Style, columns int) error {
	state := func(u inspect.UpstreamReport) string {
		text := u.State
		if u.Start == string(config.StartLazy) {
			text += " (lazy)"
		}
		switch u.State {
		case "ready":
			return s.Good(text)
		case "down", "degraded":
			return s.Bad(text)
		}
		return s.Dim(text)
	}
	var rows [][]string
	for _, u := range r.Upstreams {
		row := []string{u.Name, state(u), cmp.Or(u.Era, "-"), cmp.Or(u.Revision, "-")}
		for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource, call.Template} {
			cell := "-"
			if u.Revision != "" {
				cell = shownOf(u.Items[kind.Plural()], u.HiddenItems[kind.Plural()]) + fmt.Sprint(u.Items[kind.Plural()])
			}
			row = append(row, cell)
		}
		violations := "-"
		switch {
		case u.Violations > 0:
			violations = s.Warn(fmt.Sprint(u.Violations))
		case u.Revision != "":
			violations = "0"
		}
		row = append(row, violations)
		seconds := "-"
		if u.Seconds > 0 {
			seconds = fmt.Sprintf("%.1fs", u.Seconds)
		}
		rows = append(rows, append(row, seconds))
	}
	head := []string{"UPSTREAM", "STATE", "ERA", "REVISION", "TOOLS", "PROMPTS", "RESOURCES", "TEMPLATES", "VIOLATIONS", "TIME"}
	head, rows = console.Fit(columns, head, rows, "ERA", "TIME", "REVISION", "TEMPLATES") // the revision says the era, too
	gap := ""
	if len(rows) > 0 {
		gap = "\n"
		if err := console.Table(out, s, columns, head, rows); err != nil {
			return err
		}
	}
	if err := writeProfiles(r, out, s, columns); err != nil {
		return err
	}
	if err := writeProbes(r, out, s, columns); err != nil {
		return err
	}
	var b strings.Builder
	counts := map[string]int{}
	for _, severity := range []string{inspect.SeverityError, inspect.SeverityWarning} {
		for _, f := range r.Findings {
			if f.Severity != severity {
				continue
			}
			counts[severity]++
			word := s.Bad("error")
			if severity == inspect.SeverityWarning {
				word = s.Warn("warning")
			}
			fmt.Fprintf(&b, "%s: %s\n", word, findingLine(f))
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s: %s, %s\n", cmp.Or(r.File, "the built-in demo"),
		cmp.Or(console.Count(counts[inspect.SeverityError], "error"), "no errors"), cmp.Or(console.Count(counts[inspect.SeverityWarning], "warning"), "no warnings"))
	_, err := io.WriteString(out, console.Fold(gap+b.String(), columns))
	return err
}

// writeProfiles prints what the profiles have.
func writeProfiles(r *inspect.Report, out io.Writer, s console.Style, columns int) error {
	if len(r.Profiles) == 0 {
		return nil
	}
	var rows [][]string
	for _, p := range r.Profiles {
		row := []string{p.Name, p.Path}
		for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource, call.Template} {
			row = append(row, fmt.Sprint(p.Items[kind.Plural()]))
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(out)
	return console.Table(out, s, columns, []string{"PROFILE", "PATH", "TOOLS", "PROMPTS", "RESOURCES", "TEMPLATES"}, rows)
}

// findingLine returns a finding on one line.
func findingLine(f inspect.Finding) string {
	switch {
	case f.What == "idle":
		text := f.Path + " " + f.Message
		if f.File != "" {
			text = fmt.Sprintf("%s:%d: %s", f.File, f.Line, text)
		}
		return console.Line(text)
	case f.File != "":
		return (&config.Error{File: f.File, Line: f.Line, Col: f.Column, Path: f.Path, Msg: f.Message}).Error()
	case f.What == inspect.Unfinished && f.Upstream == "":
		return f.Message
	case f.What == "empty":
		return console.Line(f.Path + ": " + f.Message)
	case f.Kind != "":
		text := fmt.Sprintf("%s: %s %q: ", f.Upstream, f.Kind, console.Cut(f.Item, 80))
		if f.Method != "" && f.Against != "" {
			text += "its answer: "
		}
		text += f.What + ": " + f.Message
		if f.Public != "" {
			text += fmt.Sprintf(" (published as %q)", console.Cut(f.Public, 80))
		}
		if f.Profile != "" {
			text += fmt.Sprintf(" (in the profile %s)", f.Profile)
		}
		return console.Line(text)
	}
	return console.Line(f.Upstream + ": " + f.Message)
}

// printJSON prints a value for programs.
func printJSON(out io.Writer, value any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
