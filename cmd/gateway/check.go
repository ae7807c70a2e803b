package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/upstream"
)

// checkOptions are the flags of `gateway check`.
type checkOptions struct {
	runOptions
	offline, json bool
	probe         []string
	timeout       time.Duration
}

func newCheck() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and every upstream",
		Long: "check reads the configuration and reports everything that is wrong with it at once,\n" +
			"then connects to every upstream at the same time and says what it found: whether it\n" +
			"can be reached, its era and revision, how many items it lists, items whose names\n" +
			"clash, and faults against the specification. It listens nowhere.\n\n" +
			"The exit status is 1 where something is an error: a fault of the configuration, or an\n" +
			"upstream that cannot be reached or listed. Warnings leave it at 0.",
		Example: "  gateway check -c gateway.yaml\n  gateway check --offline        # only the file\n  gateway check --probe search   # one upstream",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.configFlag(cmd)
	cmd.Flags().BoolVar(&o.offline, "offline", false, "connect to nothing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Flags().StringArrayVar(&o.probe, "probe", nil, "connect to the upstream `NAME` only; may be repeated")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long upstreams may take altogether, as `DURATION`")
	complete(cmd, "probe", o.upstreamNames)
	return cmd
}

// checked is what was found; its JSON is what --json prints. Members are added
// in later versions, never renamed or removed.
type checked struct {
	File      string            `json:"file"` // "" for the demo
	OK        bool              `json:"ok"`   // whether no finding is an error
	Upstreams []checkedUpstream `json:"upstreams"`
	Findings  []finding         `json:"findings"`
}

// checkedUpstream is one upstream in file order.
type checkedUpstream struct {
	Name     string          `json:"name"`
	State    string          `json:"state"` // ready, degraded, down, disabled; unchecked with --offline or --probe of others
	Required bool            `json:"required"`
	Era      string          `json:"era"`      // legacy, modern, or ""
	Revision string          `json:"revision"` // "" where it was not reached
	Server   json.RawMessage `json:"server,omitempty"`
	Items    map[string]int  `json:"items,omitempty"` // that it lists, by kind in the plural
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
	What     string `json:"what"` // configuration, unreachable, degraded, or the fault of an item: quarantined, clash, …
	Message  string `json:"message"`
	Upstream string `json:"upstream,omitempty"`
	Kind     string `json:"kind,omitempty"`    // of the item: tool, prompt, resource or template
	Item     string `json:"item,omitempty"`    // its native name or URI
	Public   string `json:"public,omitempty"`  // its public one, where it is published
	Against  string `json:"against,omitempty"` // the fault against the specification, as metrics name it
	Mended   bool   `json:"mended,omitempty"`  // whether clients get the item without that fault
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Path     string `json:"path,omitempty"` // the key of the configuration
}

func (o *checkOptions) run(cmd *cobra.Command) error {
	report := &checked{Upstreams: []checkedUpstream{}, Findings: []finding{}}
	cfg, source, err := o.load()
	report.File = source.File
	if err == nil {
		err = cfg.CheckLoops()
	}
	var faults config.Errors
	switch {
	case errors.As(err, &faults):
		if !o.json {
			return err
		}
		for _, f := range faults {
			report.Findings = append(report.Findings, fileFinding(severityError, *f))
		}
		return o.print(cmd, report)
	case err != nil:
		return err
	}
	for _, w := range cfg.Warnings {
		report.Findings = append(report.Findings, fileFinding(severityWarning, config.Error(w)))
	}
	if err := gateway.CheckTLS(cfg); err != nil {
		report.Findings = append(report.Findings, finding{Severity: severityError, What: "configuration", Message: err.Error(), File: source.File, Path: "tls"})
	}
	if err := o.upstreams(cmd, cfg, source.File, report); err != nil {
		return err
	}
	return o.print(cmd, report)
}

func fileFinding(severity string, e config.Error) finding {
	return finding{Severity: severity, What: "configuration", Message: e.Msg, File: e.File, Line: e.Line, Column: e.Col, Path: e.Path}
}

// upstreams connects to the upstreams, and writes down what it finds.
func (o *checkOptions) upstreams(cmd *cobra.Command, cfg *config.Config, source string, report *checked) error {
	for _, name := range o.probe {
		if !slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == name }) {
			return usageError{fmt.Errorf("--probe %s: no such upstream; there are %s", name, strings.Join(namesOf(cfg), ", "))}
		}
	}
	met := make(map[string]checkedUpstream)
	wanted := func(u config.Upstream) bool {
		return !o.offline && !u.Disabled && (len(o.probe) == 0 || slices.Contains(o.probe, u.Name))
	}
	look := *cfg
	look.Upstreams = slices.DeleteFunc(slices.Clone(cfg.Upstreams), func(u config.Upstream) bool { return !wanted(u) })
	if len(look.Upstreams) > 0 || source == "" && !o.offline {
		screen := console.NewScreen(cmd.ErrOrStderr(), console.IsTerminal(cmd.ErrOrStderr()))
		progress := newStarting(screen)
		err := visit(cmd, &look, source, 0, progress.watch, func(ctx context.Context, v *gateway.Visit) error {
			progress.begin(v.Upstreams())
			defer screen.Status("")
			timed, cancel := context.WithTimeout(ctx, o.timeout)
			defer cancel()
			if err := v.Started(timed); err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			o.note(v, report, met)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if source == "" {
		for _, u := range met {
			report.Upstreams = append(report.Upstreams, u)
		}
		slices.SortFunc(report.Upstreams, func(a, b checkedUpstream) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, u := range cfg.Upstreams {
		c, ok := met[u.Name]
		if !ok {
			c = checkedUpstream{Name: u.Name, State: "unchecked", Required: u.Required}
			if u.Disabled {
				c.State = "disabled"
			}
		}
		report.Upstreams = append(report.Upstreams, c)
	}
	return nil
}

// note writes down how the upstreams are now.
func (o *checkOptions) note(v *gateway.Visit, report *checked, met map[string]checkedUpstream) {
	for _, s := range v.Upstreams() {
		c := checkedUpstream{
			Name: s.Name, State: s.State.String(), Required: s.Required, Revision: string(s.Revision),
			Server: json.RawMessage(s.Server), Seconds: s.Took.Seconds(), Items: make(map[string]int),
		}
		if s.Revision != "" {
			c.Era = s.Revision.Era().String()
		}
		for kind, n := range s.Items {
			c.Items[call.Kind(kind).Plural()] = n
		}
		f := finding{Severity: severityError, What: "unreachable", Upstream: s.Name, Message: s.Reason}
		switch s.State {
		case upstream.Ready:
			f.What = ""
		case upstream.Degraded:
			f.What = "degraded"
		case upstream.Connecting:
			c.State, f.Message = upstream.Down.String(), fmt.Sprintf("it was not ready within %s; if it needs longer, such as for a download, raise --timeout", o.timeout)
		}
		if f.What != "" {
			report.Findings = append(report.Findings, f)
		}
		met[s.Name] = c
	}
	for _, f := range v.Table().Findings() {
		found := finding{
			Severity: severityWarning, What: f.What.String(), Message: f.Reason,
			Upstream: f.Upstream, Kind: f.Kind.String(), Item: f.Native, Public: f.Public, Mended: f.Mended,
		}
		switch f.What {
		case catalog.Quarantined, catalog.Duplicate, catalog.Nonconforming:
			found.Against = f.Against.String()
		}
		report.Findings = append(report.Findings, found)
	}
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
		seconds := "-"
		if u.Seconds > 0 {
			seconds = fmt.Sprintf("%.1fs", u.Seconds)
		}
		rows = append(rows, append(row, seconds))
	}
	head := []string{"UPSTREAM", "STATE", "ERA", "REVISION", "TOOLS", "PROMPTS", "RESOURCES", "TEMPLATES", "TIME"}
	if err := console.Table(out, s, columns, head, rows); err != nil {
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
	case f.File != "":
		return (&config.Error{File: f.File, Line: f.Line, Col: f.Column, Path: f.Path, Msg: f.Message}).Error()
	case f.Kind != "":
		text := fmt.Sprintf("%s: %s %s: %s: %s", f.Upstream, f.Kind, fmt.Sprintf("%q", console.Cut(f.Item, 80)), f.What, f.Message)
		if f.Public != "" {
			text += fmt.Sprintf(" (published as %q)", console.Cut(f.Public, 80))
		}
		return console.Line(text)
	}
	return console.Line(f.Upstream + ": " + f.Message)
}

func namesOf(cfg *config.Config) []string {
	var names []string
	for _, u := range cfg.Upstreams {
		names = append(names, u.Name)
	}
	return names
}

// printJSON prints a value for programs.
func printJSON(out io.Writer, value any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
