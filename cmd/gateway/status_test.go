package main

import (
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
)

// A ready upstream whose calls fail at once says so.
func TestStatusOfAnOpenBreaker(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-40 * time.Second)
	var out strings.Builder
	s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: "files", State: "ready", Since: now, BreakerSince: &since}, {Name: "notes", State: "ready", Since: now}}}
	if err := printStatus(&out, console.Style{}, 80, s, now); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "circuit breaker") != 1 || !strings.Contains(got, "files: the circuit breaker opened 40s ago") {
		t.Error(got)
	}
}

// The error of an upstream that is ready again is over, and what it says to do is done.
func TestStatusAfterAnError(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := now.Add(-38 * time.Second)
	for state, want := range map[string]bool{"ready": false, "idle": false, "connecting": true} {
		var out strings.Builder
		s := &inspect.Status{Upstreams: []inspect.UpstreamStatus{{Name: "tickets", State: state, Since: now, LastError: "run gateway login tickets", LastErrorAt: &at}}}
		if err := printStatus(&out, console.Style{}, 80, s, now); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "tickets had an error 38s ago: run gateway login tickets") != want {
			t.Errorf("%s: %s", state, got)
		}
	}
}

// Globs of profiles are named as such.
func TestStatusOfUnmatchedGlobs(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var out strings.Builder
	s := &inspect.Status{UnmatchedGlobs: []string{`policy rule "a": what.tools[0] "x" matches nothing`, `profiles.coding.tools.deny[0] "y" matches nothing`}}
	if err := printStatus(&out, console.Style{}, 0, s, now); err != nil {
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
		rows int
		want string
	}{
		{0, "a|b|c||Press a key to end."},
		{5, "a|b|c||Press a key to end."},
		{3, "a|b|Press a key to end. 2 more lines; gateway status prints all."},
	} {
		got := strings.NewReplacer("\x1b[K\r\n", "|", "\x1b[K", "").Replace(screenLines("a\nb\nc\n", tc.rows, console.Style{}))
		if got != tc.want {
			t.Errorf("%d rows: %q, want %q", tc.rows, got, tc.want)
		}
	}
}
