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
)

// checked is what was found; its JSON is what --json prints. Members are added
// in later versions, never renamed or removed.
type checked struct {
	File      string            `json:"file"` // "" for the demo
	OK        bool              `json:"ok"`   // whether no finding is an error
	Upstreams []checkedUpstream `json:"upstreams"`
	Probes    []probed          `json:"probes,omitempty"` // with --probe
	Findings  []finding         `json:"findings"`
}

// checkedUpstream is one upstream in file order.
type checkedUpstream struct {
	Name     string          `json:"name"`
	State    string          `json:"state"` // ready, degraded, down, disabled; unchecked with --offline, or where others are named
	Required bool            `json:"required"`
	Era      string          `json:"era"`      // legacy, modern, or ""
	Revision string          `json:"revision"` // "" where it was not reached
	Server   json.RawMessage `json:"server,omitempty"`
	Items    map[string]int  `json:"items,omitempty"` // that it lists, by kind in the plural
	Faults   int             `json:"faults"`          // against the specification
	Seconds  float64         `json:"seconds"`         // that it took to be ready or down
}

// The severities of findings.
const (
	severityError   = "error"
	severityWarning = "warning"
)

// finding is one thing to know. Which members are there depends on what it is
// about: the file, an upstream or an item.
type finding struct {
	Severity string `json:"severity"`
	// What is configuration, idle (a glob matches nothing), unreachable, degraded, the fault of an item
	// (quarantined, clash, …), or what became of a probe (error, lost, timeout, refused).
	What     string `json:"what"`
	Message  string `json:"message"`
	Upstream string `json:"upstream,omitempty"`
	Kind     string `json:"kind,omitempty"`    // of the item: tool, prompt, resource or template
	Item     string `json:"item,omitempty"`    // its native name or URI
	Public   string `json:"public,omitempty"`  // its public one, where it is published
	Against  string `json:"against,omitempty"` // the fault against the specification, as metrics name it
	Method   string `json:"method,omitempty"`  // of the answer that it is about
	Mended   bool   `json:"mended,omitempty"`  // whether clients get the item without that fault
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Path     string `json:"path,omitempty"` // the key of the configuration
}

// print prints what was found, and fails if something is an error.
func (o *checkOptions) print(cmd *cobra.Command, report *checked) error {
	report.OK = !slices.ContainsFunc(report.Findings, func(f finding) bool { return f.Severity == severityError })
	out := cmd.OutOrStdout()
	err := error(nil)
	if o.json {
		err = printJSON(out, report)
	} else {
		err = report.write(out, console.StyleOf(out, lookupEnv), console.Columns(out))
	}
	if err == nil && !report.OK {
		return errTold
	}
	return err
}

// write is the report for people.
func (r *checked) write(out io.Writer, s console.Style, columns int) error {
	state := func(u checkedUpstream) string {
		switch u.State {
		case "ready":
			return s.Good(u.State)
		case "down", "degraded":
			return s.Bad(u.State)
		}
		return s.Dim(u.State)
	}
	var rows [][]string
	for _, u := range r.Upstreams {
		row := []string{u.Name, state(u), cmp.Or(u.Era, "-"), cmp.Or(u.Revision, "-")}
		for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource, call.Template} {
			cell := "-"
			if u.Revision != "" {
				cell = fmt.Sprint(u.Items[kind.Plural()])
			}
			row = append(row, cell)
		}
		faults := "-"
		switch {
		case u.Faults > 0:
			faults = s.Warn(fmt.Sprint(u.Faults))
		case u.Revision != "":
			faults = "0"
		}
		row = append(row, faults)
		seconds := "-"
		if u.Seconds > 0 {
			seconds = fmt.Sprintf("%.1fs", u.Seconds)
		}
		rows = append(rows, append(row, seconds))
	}
	head := []string{"UPSTREAM", "STATE", "ERA", "REVISION", "TOOLS", "PROMPTS", "RESOURCES", "TEMPLATES", "FAULTS", "TIME"}
	if err := console.Table(out, s, columns, head, rows); err != nil {
		return err
	}
	if err := r.writeProbes(out, s, columns); err != nil {
		return err
	}
	var b strings.Builder
	counts := map[string]int{}
	for _, severity := range []string{severityError, severityWarning} {
		for _, f := range r.Findings {
			if f.Severity != severity {
				continue
			}
			counts[severity]++
			word := s.Bad("error")
			if severity == severityWarning {
				word = s.Warn("warning")
			}
			fmt.Fprintf(&b, "%s: %s\n", word, f.line())
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s: %s, %s\n", cmp.Or(r.File, "the built-in demo"),
		cmp.Or(console.Count(counts[severityError], "error"), "no errors"), cmp.Or(console.Count(counts[severityWarning], "warning"), "no warnings"))
	_, err := io.WriteString(out, "\n"+b.String())
	return err
}

// line is a finding on one line.
func (f finding) line() string {
	switch {
	case f.What == "idle":
		text := f.Path + " " + f.Message
		if f.File != "" {
			text = fmt.Sprintf("%s:%d: %s", f.File, f.Line, text)
		}
		return console.Line(text)
	case f.File != "":
		return (&config.Error{File: f.File, Line: f.Line, Col: f.Column, Path: f.Path, Msg: f.Message}).Error()
	case f.Kind != "":
		text := fmt.Sprintf("%s: %s %q: ", f.Upstream, f.Kind, console.Cut(f.Item, 80))
		if f.Method != "" && f.Against != "" {
			text += "its answer: "
		}
		text += f.What + ": " + f.Message
		if f.Public != "" {
			text += fmt.Sprintf(" (published as %q)", console.Cut(f.Public, 80))
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
