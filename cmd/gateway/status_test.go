package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/diagnose"
)

// A ready upstream whose calls fail at once says so.
func TestStatusOfAnOpenBreaker(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-40 * time.Second)
	var out strings.Builder
	s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: "files", State: "ready", Since: now, BreakerSince: &since}, {Name: "notes", State: "ready", Since: now}}}
	if err := printStatuses(&out, console.Style{}, 80, []*inspect.Status{s}, now, allDetails); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "files     ready, breaker open") || !strings.Contains(got, "notes     ready  ") {
		t.Error(got)
	}
	if got := out.String(); strings.Count(got, "circuit breaker") != 1 || !strings.Contains(got, "files: a circuit breaker opened 40s ago and is open: calls in its session fail") {
		t.Error(got)
	}
}

// A ready upstream that prints text besides messages says so.
func TestStatusOfSkippedOutput(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out strings.Builder
	s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{
		{Name: "files", State: "ready", Since: now, Skipped: &connector.SkippedOutput{Lines: 7, First: "heartbeat", Last: now.Add(-3 * time.Second)}},
		{Name: "notes", State: "ready", Since: now, Skipped: &connector.SkippedOutput{Lines: 1, First: "Welcome", Last: now.Add(-time.Minute)}},
	}}
	if err := printStatuses(&out, console.Style{}, 0, []*inspect.Status{s}, now, allDetails); err != nil {
		t.Fatal(err)
	}
	const advice = "the gateway skips what is no MCP message; have the server print such text to its standard error"
	for _, want := range []string{
		"\nfiles: its standard output had 7 lines that are no MCP messages, the first of them \"heartbeat\": " + advice + " (last 3s ago)\n",
		"\nnotes: its standard output had a line that is no MCP message, \"Welcome\": " + advice + " (last 1m ago)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s\nwant %s", out.String(), want)
		}
	}
}

// Tools that a pin hides are not counted as items, and the page says how to accept them.
func TestStatusOfHeldTools(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out strings.Builder
	s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: "files", State: "ready", Since: now, Items: map[string]int{"tools": 2}, HeldTools: 1}}}
	if err := printStatuses(&out, console.Style{}, 200, []*inspect.Status{s}, now, allDetails); err != nil {
		t.Fatal(err)
	}
	const want = "files: its pin hides 1 new or changed tool; look with gateway pin --dry-run files, and accept with gateway pin files\n"
	if got := out.String(); !strings.Contains(got, "2 tools, 1 held\n") || !strings.Contains(got, want) {
		t.Error(got)
	}
}

// Items that the lists of an upstream hide are counted, but not as shown.
func TestStatusOfHiddenItems(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out strings.Builder
	s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{
		Name: "files", State: "ready", Since: now, HeldTools: 1,
		Items: map[string]int{"tools": 16, "prompts": 4, "resources": 1}, HiddenItems: map[string]int{"tools": 14, "prompts": 0, "resources": 1},
	}}}
	if err := printStatuses(&out, console.Style{}, 80, []*inspect.Status{s}, now, allDetails); err != nil {
		t.Fatal(err)
	}
	const want = "files     ready  0s     0      0       -    2 of 16 tools, 4 prompts, 0 of 1\n" +
		"                                              resource, 1 held\n"
	if got := out.String(); !strings.Contains(got, want) {
		t.Error(got)
	}
}

// An upstream with grants of users works without a grant of the gateway, but not for the person who runs it.
func TestStatusOfAMissingGrant(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for reason, want := range map[string]string{
		"":                          "tickets: the gateway has no grant of its own; run gateway login tickets\n",
		"run gateway login tickets": "tickets is ready: run gateway login tickets\n",
	} {
		var out strings.Builder
		s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: "tickets", State: "ready", Since: now, GrantMissing: true, Reason: reason}}}
		if err := printStatuses(&out, console.Style{}, 200, []*inspect.Status{s}, now, allDetails); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || strings.Count(got, "gateway login") != 1 {
			t.Error(got)
		}
	}
}

// The error of an upstream that is ready again is over, and what it says to do is done.
func TestStatusAfterAnError(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := now.Add(-38 * time.Second)
	for state, want := range map[string]bool{"ready": false, "idle": false, "connecting": true} {
		var out strings.Builder
		s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: "tickets", State: state, Since: now, LastError: "run gateway login tickets", LastErrorAt: &at}}}
		if err := printStatuses(&out, console.Style{}, 80, []*inspect.Status{s}, now, allDetails); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "tickets had an error 38s ago: run gateway login tickets") != want {
			t.Errorf("%s: %s", state, got)
		}
	}
}

// A long name leaves room for the items: what says least about an upstream goes first.
func TestStatusOfLongNames(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		columns int
		want    string
	}{
		{"files", 80, "UPSTREAM  STATE  SINCE  CALLS  FAILED  P95  ITEMS\nfiles     ready  0s     0      0       -    13 tools, 4 prompts, 7 resources, 1\n" +
			"                                              template\n"},
		{strings.Repeat("a", 32), 0, "UPSTREAM                          STATE  SINCE  CALLS  FAILED  P95  ITEMS\n" +
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  ready  0s     0      0       -    13 tools, 4 prompts, 7 resources, 1 template\n"},
		{strings.Repeat("a", 32), 80, "UPSTREAM                          STATE  CALLS  FAILED  ITEMS\n" +
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa  ready  0      0       13 tools, 4 prompts, 7\n" +
			"                                                          resources, 1 template\n"},
	} {
		var out strings.Builder
		items := map[string]int{"tools": 13, "prompts": 4, "resources": 7, "templates": 1}
		s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: tc.name, State: "ready", Since: now, Items: items}}}
		if err := printStatuses(&out, console.Style{}, tc.columns, []*inspect.Status{s}, now, allDetails); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasSuffix(got, "\n\n"+tc.want) {
			t.Errorf("%s, %d columns: got\n%s\nwant\n%s", tc.name, tc.columns, got, tc.want)
		}
	}
}

// The cause of a failed call is said with it, unless it is older, or said already.
func TestStatusOfTheCauseOfAFailedCall(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	failed, before, after := now.Add(-38*time.Second), now.Add(-39*time.Second), now.Add(-37*time.Second)
	const ended = "the program ended with exit status 7"
	for _, tc := range []struct {
		state, reason, failedReason string
		at                          *time.Time
		said                        int
	}{
		{"ready", "", "the connection was lost", &after, 1},
		{"idle", "", "the connection was lost", &failed, 1},
		{"ready", "", "the connection was lost", &before, 0},
		{"ready", "", "gone: " + ended, &after, 1},
		{"ready", "", ended + diagnose.DuringCall, &after, 1},
		{"ready", ended, "the connection was lost", &after, 1},
		{"down", ended, "the connection was lost", &after, 1},
		{"connecting", "", "the connection was lost", &after, 1},
	} {
		var out strings.Builder
		s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{
			Name: "files", State: tc.state, Since: now, Reason: tc.reason, LastError: ended, LastErrorAt: tc.at,
			LastFailed: &inspect.FailedCall{At: failed, Item: "boom", Reason: tc.failedReason, Request: "r1"},
		}}}
		if err := printStatuses(&out, console.Style{}, 0, []*inspect.Status{s}, now, allDetails); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Count(got, ended) != tc.said {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// The warnings of the configuration belong to its last reload, not to what fails.
func TestStatusOfWarnings(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	reload := &inspect.LastReload{At: now.Add(-time.Minute), ReloadReport: inspect.ReloadReport{
		Status: inspect.ReloadUnchanged, Warnings: []inspect.ReloadError{{File: "gateway.yaml", Line: 2, Column: 3, Message: "has expired"}},
	}}
	s := &inspect.Status{Reload: reload, Waiting: []string{"draining"}, Failing: []string{"issuer"}, AuditError: "full", UnmatchedGlobs: []string{"rule"}}
	var out strings.Builder
	if err := printStatuses(&out, console.Style{}, 0, []*inspect.Status{s}, now, allDetails); err != nil {
		t.Fatal(err)
	}
	const want = "Last reload 1m ago: unchanged.\n  warning: gateway.yaml:2:3: has expired\nNot ready: draining\nFailing: issuer\n" +
		"Calls are refused while the audit cannot be written. The last attempt: full\nGlobs that deny or confirm nothing: rule\n"
	if got := out.String(); !strings.Contains(got, want) {
		t.Error(got)
	}
}

// Globs of profiles are named as such.
func TestStatusOfUnmatchedGlobs(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out strings.Builder
	s := &inspect.Status{UnmatchedGlobs: []string{`policy rule "a": what.tools[0] "x" matches nothing`, `profiles.coding.tools.deny[0] "y" matches nothing`}}
	if err := printStatuses(&out, console.Style{}, 0, []*inspect.Status{s}, now, allDetails); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nGlobs that deny or confirm nothing: policy rule \"a\": what.tools[0] \"x\" matches nothing\n",
		"\nGlobs of profiles that deny nothing: profiles.coding.tools.deny[0] \"y\" matches nothing\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s\nwant %s", out.String(), want)
		}
	}
}

// A page that is longer than the terminal says so, and how to end is always visible.
func TestScreenLines(t *testing.T) {
	for _, tc := range []struct {
		left, columns, rows int
		want                string
	}{
		{0, 0, 0, "a|b|c||Press a key to end."},
		{0, 0, 5, "a|b|c||Press a key to end."},
		{0, 0, 3, "a|b|Press a key to end. 2 more lines; gateway status prints all."},
		{7, 0, 5, "a|b|c||Press a key to end. 7 more lines; gateway status prints all."},
		{7, 0, 3, "a|b|Press a key to end. 9 more lines; gateway status prints all."},
		{70, 60, 3, "a|b|Press a key to end. 72 more lines."},
		{70, 61, 3, "a|b|Press a key to end. 72 more lines; gateway status prints all."},
		{7, 30, 3, "a|b|Press a key to end. 9 more li…"},
	} {
		got := strings.NewReplacer("\x1b[K\r\n", "|", "\x1b[K", "").Replace(screenLines("a\nb\nc\n", tc.left, tc.columns, tc.rows, console.Style{}))
		if got != tc.want {
			t.Errorf("%d rows: %q, want %q", tc.rows, got, tc.want)
		}
	}
}

// On a small screen problems come before details, also those of the second gateway.
func TestProblemsOnASmallScreen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-40 * time.Second)
	var all []*inspect.Status
	for _, name := range []string{"one", "two"} {
		s := &inspect.Status{File: "/" + name + ".yaml", Since: since}
		for i := range 6 {
			s.Upstreams = append(s.Upstreams, inspect.UpstreamStatus{Name: fmt.Sprintf("%s%d", name, i), State: "ready", Since: since})
			s.Profiles = append(s.Profiles, inspect.ProfileStatus{Name: fmt.Sprintf("profile%d", i)})
		}
		s.Upstreams[5].BreakerSince, s.Upstreams[5].BreakerState = &since, inspect.BreakerOpen
		s.Upstreams[5].LastFailed = &inspect.FailedCall{At: since, Item: "tool", Reason: "it failed"}
		all = append(all, s)
	}
	for rows, want := range map[int]map[string]bool{
		0:  {"Process": true, "profile5": true, "Last failed call": true, "one5: a circuit": true, "two5: a circuit": true, "more line": false},
		80: {"Process": true, "profile5": true, "Last failed call": true, "one5: a circuit": true, "two5: a circuit": true, "more line": false},
		32: {"Process": true, "profile5": false, "Last failed call": false, "one5: a circuit": true, "two5: a circuit": true, "20 more lines": true},
		12: {"Process": false, "profile5": false, "Last failed call": false, "one5: a circuit": true, "two5: a circuit": true, "one0 ": true},
	} {
		got, err := screenOf(all, 80, rows, console.Style{}, now)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(got, "\n") + 1; rows > 0 && lines > rows {
			t.Errorf("%d lines for %d rows", lines, rows)
		}
		for text, there := range want {
			if strings.Contains(got, text) != there {
				t.Errorf("%d rows: %q is there: %t\n%s", rows, text, !there, got)
			}
		}
	}
}

// No line is wider than the screen: the terminal would wrap it, and the first lines would scroll away.
func TestASmallScreenIsNotWrapped(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-90 * time.Hour)
	s := &inspect.Status{File: "/home/someone/with/a/long/path/to/gateway.yaml", Since: since, URL: "http://127.0.0.1:8080/mcp", AdminURL: "http://127.0.0.1:9090"}
	for i := range 12 {
		name := fmt.Sprintf("a-server-whose-name-is-long-%d", i)
		s.Upstreams = append(s.Upstreams, inspect.UpstreamStatus{Name: name, State: "down", Since: since, Reason: "nothing listens on " + strings.Repeat("a", 50)})
	}
	s.Failing = []string{"the store is away: " + strings.Repeat("a", 70)}
	for _, size := range [][2]int{{40, 8}, {60, 24}, {20, 8}} {
		got, err := screenOf([]*inspect.Status{s}, size[0], size[1], console.Style{Colour: true}, now)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.ReplaceAll(got, "\x1b[K", ""), "\r\n")
		if len(lines) > size[1] {
			t.Errorf("%d lines for %d rows", len(lines), size[1])
		}
		for i, line := range lines {
			if begun, ended := strings.Count(line, "\x1b["), strings.Count(line, "\x1b[0m"); begun != 2*ended {
				t.Errorf("the style of a line goes on in the next one: %q", line)
			}
			lines[i] = styles.ReplaceAllString(line, "")
			if w := console.Width(lines[i]); w > size[0] {
				t.Errorf("%d of %d columns: %s", w, size[0], line)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "Press a key to end") {
			t.Errorf("%d columns: the last line is %s", size[0], last)
		}
	}
}

var styles = regexp.MustCompile("\x1b\\[[0-9]*m")

// A file that changed only in keys that need a restart is not called unchanged.
func TestStatusOfAReloadThatNeedsARestart(t *testing.T) {
	r := inspect.ReloadReport{Status: inspect.ReloadUnchanged, NeedsRestart: []string{"listen"}}
	if got := reloadText(r); got != "nothing changes without a restart" {
		t.Error(got)
	}
	r.NeedsRestart = nil
	if got := reloadText(r); got != "unchanged" {
		t.Error(got)
	}
}
