package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
)

// statusOptions are the flags of `gateway status`.
type statusOptions struct {
	reachOptions
	json, watch bool
}

// maxGlobs bounds how many unmatched globs are printed.
const maxGlobs = 3

// watchInterval is how often --watch asks.
const watchInterval = time.Second

func newStatus() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print how a running gateway is",
		Long: "status asks the gateways that you run on this machine, also those that hosts have\n" +
			"started, for their upstreams, profiles, sessions, calls and last reload. P95 is the time\n" +
			"within which 95 of 100 calls end. With -c it asks only gateways with that file,\n" +
			"and with --url the gateway of an admin address that has admin.token.",
		Example: "  gateway status\n  gateway status --watch\n  gateway status --json\n" +
			"  gateway status --url http://127.0.0.1:9090 --header \"Authorization: Bearer $T\"",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON array with one object for each gateway")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "ask every second until you press a key")
	return cmd
}

func (o *statusOptions) run(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := cmd.OutOrStdout()
	if o.watch {
		return o.follow(ctx, cmd)
	}
	all, err := o.statuses(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(out, all)
	}
	return printStatuses(out, console.StyleOf(out, lookupEnv), console.Columns(out), all, time.Now())
}

// statuses asks all gateways.
func (o *statusOptions) statuses(ctx context.Context) ([]*inspect.Status, error) {
	found, err := o.find(ctx)
	if err != nil {
		return nil, err
	}
	var all []*inspect.Status
	for _, r := range found {
		if r.status == nil {
			if err := o.ask(ctx, r, http.MethodGet, "/-/status", &r.status); err != nil {
				return nil, err
			}
		}
		all = append(all, r.status)
	}
	return all, nil
}

// follow shows the status on a terminal until a key is pressed.
func (o *statusOptions) follow(ctx context.Context, cmd *cobra.Command) error {
	out, isFile := cmd.OutOrStdout().(*os.File)
	in, isTerminal := cmd.InOrStdin().(*os.File)
	if o.json || !isFile || !isTerminal || !console.IsTerminal(out) || !console.IsTerminal(in) {
		return usageError{errors.New("--watch needs a terminal, and does not go with --json")}
	}
	pressed, restore, err := console.AnyKey(in)
	if err != nil {
		return err
	}
	defer restore()
	style := console.StyleOf(out, lookupEnv)
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	clear := "\x1b[2J"
	for {
		var page strings.Builder
		if all, err := o.statuses(ctx); err != nil {
			fmt.Fprintln(&page, console.Wrap(err.Error(), "", console.Columns(out)))
		} else if err := printStatuses(&page, style, console.Columns(out), all, time.Now()); err != nil {
			return err
		}
		if _, err := io.WriteString(out, clear+"\x1b[H"+screenLines(page.String(), console.Rows(out), style)+"\x1b[J"); err != nil {
			return err
		}
		clear = ""
		select {
		case <-ctx.Done():
			return nil
		case <-pressed:
			return nil
		case <-ticker.C:
		}
	}
}

// screenLines is a page for a terminal that reports each key, without what was there before: at most rows lines, of which
// the last says how to end, and whether lines of the page have no room.
func screenLines(page string, rows int, style console.Style) string {
	lines, end := strings.SplitAfter(strings.TrimRight(page, "\n")+"\n\n", "\n"), "Press a key to end."
	lines = lines[:len(lines)-1]
	if more := len(lines) - (rows - 1); rows > 0 && more > 0 {
		lines = lines[:rows-1]
		end += fmt.Sprintf(" %s; gateway status prints all.", console.Count(more, "more line"))
	}
	return strings.ReplaceAll(strings.Join(lines, "")+style.Dim(end), "\n", "\x1b[K\r\n") + "\x1b[K"
}

func printStatuses(out io.Writer, style console.Style, columns int, all []*inspect.Status, now time.Time) error {
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := printStatus(out, style, columns, s, now); err != nil {
			return err
		}
	}
	return nil
}

func printStatus(out io.Writer, style console.Style, columns int, s *inspect.Status, now time.Time) error {
	source := "the demo"
	if s.File != "" {
		source = tilde(s.File)
	}
	say := func(format string, args ...any) {
		fmt.Fprintln(out, console.Wrap(console.Line(fmt.Sprintf(format, args...)), "", columns))
	}
	fmt.Fprintln(out, style.Bold(console.Cut("gateway "+s.Version+": "+source, columns)))
	where := "for the host that started it"
	if s.URL != "" {
		where = "on " + s.URL + ", admin on " + s.AdminURL
	}
	say("Process %d has served for %s %s.", s.PID, console.Ago(now.Sub(s.Since)), where)
	if s.URL != "" {
		say("Clients have %s open.", cmp.Or(console.Count(s.Sessions, "session"), "no session"))
	}
	if r := s.Reload; r != nil {
		say("Last reload %s ago: %s.", console.Ago(now.Sub(r.At)), reloadText(r.ReloadReport))
		if len(r.NeedsRestart) > 0 {
			fmt.Fprintln(out, style.Warn(console.Wrap("Restart it for: "+console.Line(strings.Join(r.NeedsRestart, ", ")), "  ", columns)))
		}
		for _, k := range r.Kept {
			fmt.Fprintln(out, style.Bad(console.Wrap(console.Line(k.String()), "  ", columns)))
		}
		for _, e := range r.Errors {
			fmt.Fprintln(out, style.Bad(console.Wrap(console.Line(reloadError(e)), "  ", columns)))
		}
		for _, w := range warningsOf(r.ReloadReport) {
			fmt.Fprintln(out, style.Warn(console.Wrap(console.Line(w), "  ", columns)))
		}
	}
	var ofRules, ofProfiles []string
	for _, glob := range s.UnmatchedGlobs {
		if strings.HasPrefix(glob, "profiles.") {
			ofProfiles = append(ofProfiles, glob)
		} else {
			ofRules = append(ofRules, glob)
		}
	}
	printGlobs(out, style, columns, "Globs that deny or confirm nothing", ofRules)
	printGlobs(out, style, columns, "Globs of profiles that deny nothing", ofProfiles)
	for _, w := range s.Waiting {
		fmt.Fprintln(out, style.Warn(console.Wrap("Not ready: "+console.Line(w), "", columns)))
	}
	for _, f := range s.Failing {
		fmt.Fprintln(out, style.Warn(console.Wrap("Failing: "+console.Line(f), "", columns)))
	}
	if s.AuditError != "" {
		text := "Calls are refused while the audit cannot be written. The last attempt: " + s.AuditError
		fmt.Fprintln(out, style.Bad(console.Wrap(console.Line(text), "", columns)))
	}
	fmt.Fprintln(out)
	var rows [][]string
	for _, u := range s.Upstreams {
		rows = append(rows, upstreamRow(style, u, now))
	}
	if err := console.FoldedTable(out, style, columns, []string{"UPSTREAM", "STATE", "SINCE", "CALLS", "FAILED", "P95", "ITEMS"}, rows); err != nil {
		return err
	}
	if err := printProfiles(out, style, columns, s.Profiles); err != nil {
		return err
	}
	for _, u := range s.Upstreams {
		text := ""
		switch {
		case u.Reason != "":
			text = fmt.Sprintf("%s is %s: %s", u.Name, u.State, u.Reason)
		case u.LastError != "" && u.State != "ready" && u.State != "idle":
			text = fmt.Sprintf("%s had an error %s ago: %s", u.Name, console.Ago(now.Sub(*u.LastErrorAt)), u.LastError)
		}
		for _, at := range u.URLs {
			if at.Why != "" {
				text += fmt.Sprintf(" %s is avoided: %s", at.URL, at.Why)
			}
		}
		if text != "" {
			fmt.Fprintf(out, "\n%s\n", console.Wrap(console.Line(text), "", columns))
		}
		if b := u.BreakerSince; b != nil {
			text := fmt.Sprintf("%s: the circuit breaker opened %s ago%s", u.Name, console.Ago(now.Sub(*b)), breakerText(u))
			fmt.Fprintf(out, "\n%s\n", console.Wrap(console.Line(text), "", columns))
		}
		if f := u.LastFailed; f != nil {
			text := fmt.Sprintf("Last failed call of %s: %s ago, %s: %s (request %s)",
				u.Name, console.Ago(now.Sub(f.At)), cmp.Or(f.Item, f.Method), f.Reason, f.Request)
			fmt.Fprintf(out, "\n%s\n", console.Wrap(console.Line(text), "", columns))
		}
	}
	return nil
}

// breakerText says what happens to calls of an upstream with a circuit breaker that is not closed, as the end of a sentence.
func breakerText(u inspect.UpstreamStatus) string {
	if u.BreakerState == inspect.BreakerHalfOpen {
		return " and is half-open: the next call is tried, and calls go on if the server answers it"
	}
	return ": calls fail at once, until one that is let through succeeds"
}

// printGlobs prints the first globs that match nothing, and nothing if there are none.
func printGlobs(out io.Writer, style console.Style, columns int, heading string, globs []string) {
	if len(globs) == 0 {
		return
	}
	text := heading + ": " + strings.Join(globs[:min(len(globs), maxGlobs)], "; ")
	if more := len(globs) - maxGlobs; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	fmt.Fprintln(out, style.Warn(console.Wrap(console.Line(text), "", columns)))
}

// printProfiles prints the profiles of a gateway, and nothing if it has none.
func printProfiles(out io.Writer, style console.Style, columns int, all []inspect.ProfileStatus) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{p.Name, cmp.Or(p.URL, "-"), itemCounts(p.Items)})
	}
	return console.FoldedTable(out, style, columns, []string{"PROFILE", "URL", "ITEMS"}, rows)
}

// itemCounts is how many items there are of each kind.
func itemCounts(items map[string]int) string {
	var all []string
	for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource, call.Template} {
		if text := console.Count(items[kind.Plural()], kind.String()); text != "" {
			all = append(all, text)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

func upstreamRow(style console.Style, u inspect.UpstreamStatus, now time.Time) []string {
	set := style.Good
	switch u.State {
	case "down":
		set = style.Bad
	case "degraded", "connecting":
		set = style.Warn
	case "idle":
		set = style.Dim
	}
	p95 := "-"
	if u.P95 != nil {
		p95 = shortSeconds(*u.P95)
	}
	return []string{
		console.Line(u.Name), set(u.State), console.Ago(now.Sub(u.Since)), strconv.Itoa(u.Calls), strconv.Itoa(u.Failed), p95,
		itemCounts(u.Items),
	}
}

// shortSeconds is a duration with two digits or so.
func shortSeconds(s float64) string {
	switch {
	case s < 0.01:
		return fmt.Sprintf("%.1fms", s*1000)
	case s < 1:
		return fmt.Sprintf("%.0fms", s*1000)
	}
	return fmt.Sprintf("%.1fs", s)
}
