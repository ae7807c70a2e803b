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
