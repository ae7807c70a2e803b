package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// --profile is checked before anything starts, completed, and written into hosts' files.
func TestProfileFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte(`
upstreams: {files: {command: /no/such/program}}
profiles: {coding: {}, ops: {}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none.yaml")
	if err := os.WriteFile(none, []byte("upstreams: {files: {command: /no/such/program}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"list --profile codign -c " + file, exitUsage, `--profile codign: no such profile; there are default, coding, ops; did you mean "coding"?`},
		{"explain x --profile codign -c " + file, exitUsage, "no such profile"},
		{"call x --profile codign -c " + file, exitUsage, "no such profile"},
		{"check --profile codign -c " + file, exitUsage, "no such profile"},
		{"stdio --profile codign -c " + file, exitUsage, "no such profile"},
		{"connect cursor --print --profile codign -c " + file, exitUsage, "no such profile"},
		{"list --profile coding -c " + none, exitUsage, "no such profile; the configuration has no profiles, add one under profiles"},
		{"list --profile= -c " + file, exitUsage, "--profile is empty"},
		{"list --profile coding --url http://127.0.0.1:1/mcp", exitUsage, "/mcp/NAME"},
		{"check files --profile coding -c " + file, exitUsage, "--profile selects the upstreams"},
		{"check --offline --profile coding -c " + file, exitUsage, "remove --profile"},
		{"__complete list -c " + file + " --profile o", exitDone, "default\ncoding\nops\n"},
		{"__complete stdio -c " + file + " --profile o", exitDone, "ops\n"},
		{"connect cursor --print --profile coding -c " + file, exitDone, `"--profile", "coding"`},
		{"connect cursor --print --profile coding --http http://127.0.0.1:8080/mcp", exitDone, `"http://127.0.0.1:8080/mcp/coding"`},
		{"connect cursor --print --profile coding --http http://127.0.0.1:8080/mcp/coding", exitDone, `"http://127.0.0.1:8080/mcp/coding"`},
		{"connect cursor --print --profile default --http http://127.0.0.1:8080/mcp", exitDone, `"http://127.0.0.1:8080/mcp"`},
		{"connect cursor --print --profile coding --http https://x.example/base/mcp/", exitDone, `"https://x.example/base/mcp/coding"`},
		{"connect cursor --print --profile coding --http http://127.0.0.1:8080/mcp/ops", exitUsage, "must be the URL of /mcp"},
		{"connect cursor --print --profile coding --http http://127.0.0.1:8080", exitUsage, "must be the URL of /mcp"},
	} {
		var out, errs strings.Builder
		if status := run(strings.Fields(tt.args), strings.NewReader(""), &out, &errs); status != tt.status || !strings.Contains(out.String()+errs.String(), tt.want) {
			t.Errorf("%s: %d\n%s%s", tt.args, status, out.String(), errs.String())
		}
	}
}
