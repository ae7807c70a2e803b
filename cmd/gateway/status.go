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

	"mcpgateway/internal/advice"
	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/upstream/diagnose"
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
	var named []inspect.ReloadError
	for _, s := range all {
		if s.Reload != nil {
			named = append(named, s.Reload.Errors...)
		}
	}
	warnUnread(cmd.ErrOrStderr(), o.unread, named)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(out, all)
	}
	return printStatuses(out, console.StyleOf(out, lookupEnv), console.Columns(out), all, time.Now(), allDetails)
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
		var screen string
		if all, err := o.statuses(ctx); err != nil {
			screen = screenLines(console.Wrap(err.Error(), "", console.Columns(out)), 0, console.Columns(out), console.Rows(out), style)
		} else if screen, err = screenOf(all, console.Columns(out), console.Rows(out), style, time.Now()); err != nil {
			return err
		}
		if _, err := io.WriteString(out, clear+"\x1b[H"+screen+"\x1b[J"); err != nil {
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

// screenOf is the page about all gateways for a terminal: with as many details as have room.
func screenOf(all []*inspect.Status, columns, rows int, style console.Style, now time.Time) (string, error) {
	var page strings.Builder
	total, lines := 0, 0
	for d := allDetails; ; d++ {
		page.Reset()
		if err := printStatuses(&page, style, columns, all, now, d); err != nil {
			return "", err
		}
		lines = strings.Count(page.String(), "\n")
		total = max(total, lines)
		if rows == 0 || lines < rows-1 || d == problemsFirst {
			return screenLines(page.String(), max(0, total-lines), columns, rows, style), nil
		}
	}
}

// screenLines is a page for a terminal that reports each key, without what was there before: at most rows lines, of which
// the last says how to end, and how many lines have no room, with those that the page leaves out. Lines are cut to the columns: the terminal
// would wrap them, and the first ones would scroll away.
func screenLines(page string, left, columns, rows int, style console.Style) string {
	lines, end := strings.Split(strings.TrimRight(page, "\n")+"\n", "\n"), "Press a key to end."
	if more := len(lines) - (rows - 1); rows > 0 && more > 0 {
		lines, left = lines[:rows-1], left+more
	}
	if left > 0 {
		more := end + " " + console.Count(left, "more line")
		if end = more + "; gateway status prints all."; columns > 0 && console.Width(end) > columns {
			end = more + "."
		}
	}
	for i, line := range lines {
		lines[i] = console.Cut(line, columns)
	}
	lines = append(lines, style.Dim(console.Cut(end, columns)))
	return strings.Join(lines, "\x1b[K\r\n") + "\x1b[K"
}

// details says how much is printed about gateways.
type details int

const (
	allDetails    details = iota
	fewDetails            // without profiles and last failed calls
	problemsFirst         // the problems of all gateways, and then their upstreams
)

func printStatuses(out io.Writer, style console.Style, columns int, all []*inspect.Status, now time.Time, d details) error {
	for i, s := range all {
		p := statusPage{out, style, columns, s, now}
		if i > 0 && d != problemsFirst {
			fmt.Fprintln(out)
		}
		p.title()
		if d == problemsFirst {
			p.reloadProblems()
			p.problems()
			p.upstreamProblems("")
			continue
		}
		p.facts()
		p.reloadProblems()
		p.reloadWarnings()
		p.problems()
		p.globs()
		fmt.Fprintln(out)
		if err := p.upstreams(); err != nil {
			return err
		}
		p.upstreamProblems("\n")
		if d == allDetails {
			if err := printProfiles(out, style, columns, s.Profiles); err != nil {
				return err
			}
			p.lastFailed()
		}
	}
	if d != problemsFirst {
		return nil
	}
	for _, s := range all {
		p := statusPage{out, style, columns, s, now}
		fmt.Fprintln(out)
		if len(all) > 1 {
			p.title()
		}
		if err := p.upstreams(); err != nil {
			return err
		}
		p.reloadWarnings()
		p.globs()
	}
	return nil
}

// statusPage prints the parts of what there is to say about a gateway.
type statusPage struct {
	out     io.Writer
	style   console.Style
	columns int
	*inspect.Status
	now time.Time
}

// configFlag is the flag to write after an advised command, "" for the file that the command finds by itself. The gateway may
// run with another file than that.
func (p *statusPage) configFlag() string { return cmp.Or(advice.ConfigFlag(), withConfig(p.File)) }

// say prints a sentence.
func (p *statusPage) say(set func(string) string, indent, format string, args ...any) {
	text := console.Wrap(console.Line(fmt.Sprintf(format, args...)), indent, p.columns)
	fmt.Fprintln(p.out, styleLines(text, set))
}

// styleLines styles each line of a text by itself: a line that is cut loses its style, and with it the end of a style of several lines.
func styleLines(text string, set func(string) string) string {
	if set == nil {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = set(line)
	}
	return strings.Join(lines, "\n")
}

func (p *statusPage) title() {
	source := "the demo"
	if p.File != "" {
		source = tilde(p.File)
	}
	fmt.Fprintln(p.out, p.style.Bold(console.Cut("gateway "+p.Version+": "+source, p.columns)))
}

func (p *statusPage) facts() {
	where := "for the host that started it"
	if p.URL != "" {
		where = "on " + p.URL + ", admin on " + p.AdminURL
	}
	p.say(nil, "", "Process %d has served for %s %s.", p.PID, console.Ago(p.now.Sub(p.Since)), where)
	if p.URL != "" {
		p.say(nil, "", "Clients have %s open.", cmp.Or(console.Count(p.Sessions, "session"), "no session"))
	}
	if r := p.Reload; r != nil {
		p.say(nil, "", "Last reload %s ago: %s.", console.Ago(p.now.Sub(r.At)), reloadText(r.ReloadReport))
	}
}

// reloadProblems prints what is wrong with the last reload.
func (p *statusPage) reloadProblems() {
	r := p.Reload
	if r == nil {
		return
	}
	if len(r.NeedsRestart) > 0 {
		p.say(p.style.Warn, "  ", "Restart it for: %s", strings.Join(r.NeedsRestart, ", "))
	}
	for _, k := range r.Kept {
		p.say(p.style.Bad, "  ", "%s", k)
		for _, e := range k.Errors {
			p.say(p.style.Bad, "    ", "%s", reloadError(e))
		}
	}
	for _, e := range r.Errors {
		p.say(p.style.Bad, "  ", "%s", reloadError(e))
	}
}

// reloadWarnings prints what may be wrong with the configuration.
func (p *statusPage) reloadWarnings() {
	if r := p.Reload; r != nil {
		for _, w := range warningsOf(r.ReloadReport) {
			p.say(p.style.Warn, "  ", "%s", w)
		}
	}
}

// problems prints what is wrong with the gateway itself.
func (p *statusPage) problems() {
	warn, bad := p.style.Warn, p.style.Bad
	for _, w := range p.Waiting {
		p.say(warn, "", "Not ready: %s", w)
	}
	for _, f := range p.Failing {
		p.say(warn, "", "Failing: %s", f)
	}
	if p.AuditError != "" {
		p.say(bad, "", "Calls are refused while the audit cannot be written. The last attempt: %s", p.AuditError)
	}
}

// globs prints which globs match nothing.
func (p *statusPage) globs() {
	var ofRules, ofProfiles []string
	for _, glob := range p.UnmatchedGlobs {
		if strings.HasPrefix(glob, "profiles.") {
			ofProfiles = append(ofProfiles, glob)
		} else {
			ofRules = append(ofRules, glob)
		}
	}
	printGlobs(p.out, p.style, p.columns, "Globs that deny or confirm nothing", ofRules)
	printGlobs(p.out, p.style, p.columns, "Globs of profiles that deny nothing", ofProfiles)
}

func (p *statusPage) upstreams() error {
	var rows [][]string
	for _, u := range p.Upstreams {
		rows = append(rows, upstreamRow(p.style, u, p.now))
	}
	head := []string{"UPSTREAM", "STATE", "SINCE", "CALLS", "FAILED", "P95", "ITEMS"}
	head, rows = console.Fit(p.columns, head, rows, "P95", "SINCE") // else a long name leaves the items several lines for each upstream
	return console.FoldedTable(p.out, p.style, p.columns, head, rows)
}

// upstreamProblems prints what is wrong with the upstreams, each after a gap.
func (p *statusPage) upstreamProblems(gap string) {
	for _, u := range p.Upstreams {
		text := ""
		switch {
		case u.Reason != "":
			text = fmt.Sprintf("%s is %s: %s", u.Name, u.State, u.Reason)
		case u.LastError != "" && !recovered(u):
			text = fmt.Sprintf("%s had an error %s ago: %s", u.Name, console.Ago(p.now.Sub(*u.LastErrorAt)), u.LastError)
		}
		for _, at := range u.URLs {
			if at.Why != "" {
				text += fmt.Sprintf(" %s is avoided: %s", at.URL, at.Why)
			}
		}
		if text != "" {
			fmt.Fprint(p.out, gap)
			p.say(nil, "", "%s", text)
		}
		if u.GrantMissing && text == "" { // the reason of an upstream that is down says so itself
			fmt.Fprint(p.out, gap)
			p.say(nil, "", "%s: the gateway has no grant of its own; run gateway login %[1]s%[2]s", u.Name, p.configFlag())
		}
		if o := u.Skipped; o != nil {
			fmt.Fprint(p.out, gap)
			p.say(nil, "", "%s: %s (last %s ago)", u.Name, o, console.Ago(p.now.Sub(o.Last)))
		}
		if u.HeldTools > 0 {
			fmt.Fprint(p.out, gap)
			p.say(nil, "", "%s: its pin hides %s; look with gateway pin --dry-run %[1]s%[3]s, and accept with gateway pin %[1]s%[3]s",
				u.Name, console.Count(u.HeldTools, "new or changed tool"), p.configFlag())
		}
		if u.BreakerSince != nil {
			fmt.Fprint(p.out, gap)
			p.say(nil, "", "%s: %s", u.Name, breakerText(u, p.now))
		}
	}
}

func (p *statusPage) lastFailed() {
	for _, u := range p.Upstreams {
		if f := u.LastFailed; f != nil {
			fmt.Fprintln(p.out)
			cause := ""
			if u.LastErrorAt != nil && !u.LastErrorAt.Before(f.At) && recovered(u) && u.LastError != u.Reason && !strings.Contains(f.Reason, u.LastError) && !strings.Contains(f.Reason, diagnose.DuringCall) {
				cause = fmt.Sprintf(". The last error of %s, %s ago: %s", u.Name, console.Ago(p.now.Sub(*u.LastErrorAt)), u.LastError)
			}
			p.say(nil, "", "Last failed call of %s: %s ago, %s: %s (request %s)%s",
				u.Name, console.Ago(p.now.Sub(f.At)), cmp.Or(f.Item, f.Method), f.Reason, f.Request, cause)
		}
	}
}

// recovered reports whether the last error of an upstream is over.
func recovered(u inspect.UpstreamStatus) bool { return u.State == "ready" || u.State == "idle" }

// breakerText says when a circuit breaker of an upstream opened that is not closed, and what happens to calls of its session,
// as a part of a sentence. Other sessions with the upstream may work.
func breakerText(u inspect.UpstreamStatus, now time.Time) string {
	opened := "a circuit breaker opened " + console.Ago(now.Sub(*u.BreakerSince)) + " ago"
	if u.BreakerState == inspect.BreakerHalfOpen {
		return opened + " and is half-open: the next call in its session is tried, and calls go on if the server answers it"
	}
	return opened + " and is open: calls in its session fail at once, until one that is let through succeeds"
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
	fmt.Fprintln(out, styleLines(console.Wrap(console.Line(text), "", columns), style.Warn))
}

// printProfiles prints the profiles of a gateway, and nothing if it has none.
func printProfiles(out io.Writer, style console.Style, columns int, all []inspect.ProfileStatus) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{p.Name, cmp.Or(p.URL, "-"), cmp.Or(itemCounts(p.Items, nil), "-")})
	}
	return console.FoldedTable(out, style, columns, []string{"PROFILE", "URL", "ITEMS"}, rows)
}

// itemCounts is how many items there are of each kind, and how many of them clients can be shown if some are hidden; "" without items.
func itemCounts(items, hidden map[string]int) string {
	var all []string
	for _, kind := range []call.Kind{call.Tool, call.Prompt, call.Resource, call.Template} {
		n := items[kind.Plural()]
		if text := console.Count(n, kind.String()); text != "" {
			all = append(all, shownOf(n, hidden[kind.Plural()])+text)
		}
	}
	return strings.Join(all, ", ")
}

// shownOf is what goes before the number of all items if some of them are hidden, such as "2 of ".
func shownOf(all, hidden int) string {
	if hidden == 0 {
		return ""
	}
	return fmt.Sprintf("%d of ", all-hidden)
}

func upstreamRow(style console.Style, u inspect.UpstreamStatus, now time.Time) []string {
	state, set := u.State, style.Good
	switch u.State {
	case "down":
		set = style.Bad
	case "degraded", "connecting":
		set = style.Warn
	case "idle":
		set = style.Dim
	}
	if u.BreakerSince != nil {
		state, set = state+", breaker "+cmp.Or(u.BreakerState, inspect.BreakerOpen), style.Bad // an earlier version says no state
		if u.BreakerState == inspect.BreakerHalfOpen {
			set = style.Warn
		}
	}
	p95 := "-"
	if u.P95 != nil {
		p95 = shortSeconds(*u.P95)
	}
	items := cmp.Or(itemCounts(u.Items, u.HiddenItems), "-")
	if u.HeldTools > 0 {
		items += fmt.Sprintf(", %d held", u.HeldTools)
	}
	return []string{
		console.Line(u.Name), set(state), console.Ago(now.Sub(u.Since)), strconv.Itoa(u.Calls), strconv.Itoa(u.Failed), p95, items,
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
