package main

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
)

// Long URIs leave room for descriptions, and short names have their upstream beside them.
func TestListOnANarrowTerminal(t *testing.T) {
	uri := "everything+demo://resource/static/document/architecture.md"
	for _, tc := range []struct {
		name, want string
		columns    int
	}{
		{uri, "RESOURCES DESCRIPTION", 80},
		{"files+file:///a", "RESOURCES UPSTREAM DESCRIPTION", 80},
		{uri, "RESOURCES UPSTREAM DESCRIPTION", 0},
	} {
		rows := rowsOf([]seenItem{{Kind: "resource", Name: tc.name, Upstream: "everything", Description: strings.Repeat("word ", 20)}}, call.Resource, console.Style{}, false)
		head, rows := headOf(call.Resource, rows, tc.columns, false)
		if got := strings.Join(head, " "); got != tc.want || len(rows[0]) != len(head) {
			t.Errorf("%s, %d columns: %s, %q", tc.name, tc.columns, got, rows)
		}
	}
}
