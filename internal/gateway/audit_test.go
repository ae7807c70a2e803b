package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// auditedLine has members of a line of the audit.
type auditedLine struct{ Time, Event, Request, Remote, Reason string }

// auditLines returns the lines of an audit file.
func auditLines(t *testing.T, file string) (lines []auditedLine) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(data)) {
		var l auditedLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// The audit has the address of the client. Only trusted proxies can name another one.
func TestAuditHasTheAddress(t *testing.T) {
	for name, tt := range map[string]struct{ proxies, want string }{
		"a client":        {"", "127.0.0.1:"},
		"a trusted proxy": {"trusted_proxies: [127.0.0.0/8]\n", "203.0.113.7"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.jsonl")
			g, end := start(t, tt.proxies+"telemetry: {audit: {file: "+file+"}}\n"+aDisabledUpstream, false)
			req, err := http.NewRequest(http.MethodPost, g.URL(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Forwarded-For", "203.0.113.7")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			end()
			lines := auditLines(t, file)
			if len(lines) != 2 {
				t.Fatalf("%d lines, want a decision and an end", len(lines))
			}
			for _, l := range lines {
				if exact := tt.proxies == ""; !strings.HasPrefix(l.Remote, tt.want) || exact == (l.Remote == tt.want) {
					t.Errorf("remote is %q, want %s", l.Remote, tt.want)
				}
			}
		})
	}
}

// The status says that calls are refused because the audit cannot be written, and the gateway is not ready meanwhile. Nothing of
// the audit is written elsewhere.
func TestStatusOfAnAuditThatCannotBeWritten(t *testing.T) {
	for name, tt := range map[string]struct {
		lose, restore func(file string) error
		want          string
	}{
		"a folder in the place of the file": {
			func(file string) error { return errors.Join(os.Rename(file, file+".1"), os.Mkdir(file, 0o700)) }, os.Remove, "is not a regular file",
		},
		"its folder is gone": {
			func(file string) error { return os.Rename(filepath.Dir(file), filepath.Dir(file)+".gone") },
			func(file string) error { return os.Rename(filepath.Dir(file)+".gone", filepath.Dir(file)) },
			"does not exist: create it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log", "audit.jsonl")
			if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			g, end := start(t, "telemetry: {audit: {file: "+file+"}}\n"+aDisabledUpstream, false)
			defer end()
			statusAfterCall := func() string {
				t.Helper()
				resp, err := http.Post(g.URL(), "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}`))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				s, err := g.Status()
				if err != nil {
					t.Fatal(err)
				}
				return s.AuditError
			}
			if got := statusAfterCall(); got != "" {
				t.Errorf("before: %q", got)
			}
			if err := tt.lose(file); err != nil {
				t.Fatal(err)
			}
			if got := statusAfterCall(); !strings.Contains(got, filepath.Dir(file)) || !strings.Contains(got, tt.want) {
				t.Errorf("meanwhile: %q, want %q", got, tt.want)
			}
			if got := page(t, g, "/readyz"); !strings.Contains(got, `"status":"not ready","waiting":["the audit cannot be written, and calls are refused: `) {
				t.Errorf("/readyz meanwhile: %s", got)
			}
			if err := tt.restore(file); err != nil {
				t.Fatal(err)
			}
			if got := page(t, g, "/readyz"); !strings.Contains(got, `"status":"ready"`) { // without a call
				t.Errorf("/readyz afterwards: %s", got)
			}
			restored := slices.IndexFunc(auditLines(t, file), func(l auditedLine) bool { return l.Event == "restored" && l.Time != "" })
			if restored < 0 {
				t.Errorf("lines after /readyz: %v", auditLines(t, file))
			}
			if got := statusAfterCall(); got != "" {
				t.Errorf("afterwards: %q", got)
			}
		})
	}
}
