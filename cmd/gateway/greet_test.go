package main

import (
	"encoding/json"
	"strings"
	"testing"

	"mcpgateway/internal/console"
)

// A program that "go run" made goes away with Go's cache.
func TestInBuildCache(t *testing.T) {
	for path, want := range map[string]bool{
		"/home/me/.cache/go-build/6b/6b4aea-d/gateway": true, "/tmp/go-build123/b001/exe/gateway": true,
		"/home/me/go-build.d/gateway": false, "/usr/local/bin/gateway": false, "gateway": false,
	} {
		if got := inBuildCache(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}

// The next step names a program that the shell finds.
func TestNextStep(t *testing.T) {
	if got := nextStep("./gateway", "", ""); strings.Count(got, "\"./gateway ") != 3 {
		t.Error(got)
	}
	if got := nextStep("gateway", "gateway.yaml", "http://h/mcp"); !strings.Contains(got, "\n  gateway connect HOST --http http://h/mcp\n") {
		t.Error(got)
	}
}

// The text to paste fits the terminal, and is JSON at any width.
func TestSnippet(t *testing.T) {
	members := [][]string{{`"type": "http"`, `"url": ` + quoted("https://gateway.example.com/mcp")}, {`"headers": {"Authorization": "Bearer KEY"}`}}
	for columns, lines := range map[int]int{0: 1, 80: 4, 200: 1} {
		got := snippet(columns, members)
		if !json.Valid([]byte(got)) || strings.Count(got, "\n")+1 != lines {
			t.Errorf("%d columns:\n%s", columns, got)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if columns > 0 && console.Width(line) > columns {
				t.Errorf("%d of %d columns: %s", console.Width(line), columns, line)
			}
		}
	}
	if got := snippet(80, [][]string{{`"args": ["stdio"]`}}); got != `  {"mcpServers": {"gateway": {"args": ["stdio"]}}}` {
		t.Errorf("a short entry is %q", got)
	}
}
