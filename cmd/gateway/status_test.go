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
