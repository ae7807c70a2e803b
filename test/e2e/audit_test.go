package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/test/internal/rig"
)

// TestAuditOfArguments records the arguments of calls. Redacted arguments and credentials must not appear, and every line must be complete in one of
// the files, also when the files are rotated.
func TestAuditOfArguments(t *testing.T) {
	const key, hidden, shown = "mcpgw_0123456789_of_ann", "hunter2", "plain-to-see"
	digest := sha256.Sum256([]byte(key))
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	everything := rig.EverythingCommand(t)
	g := rig.StartOne(t, "it ends the process and reads its audit", rig.Config{
		"auth":   rig.Config{"mode": "api-key", "api_keys": []rig.Config{{"id": "ann", "sha256": hex.EncodeToString(digest[:])}}},
		"policy": rig.Config{"default": "allow"},
		"telemetry": rig.Config{"audit": rig.Config{
			"file": file, "arguments": true, "redact": []string{"**.password", "headers.*"}, "max_size": "1MiB", "max_files": 0,
		}},
		"upstreams": rig.Upstreams{"e": {"command": everything[0], "args": everything[1:]}},
	})
	const callers, calls = 4, 25
	padding := strings.Repeat("x", 30_000) // enough for several files
	send := func(n int) {
		arguments := fmt.Sprintf(`{"message":"%s %d","deep":[{"PassWord":%q,"\u0070assword":[%q]}],"headers":{"authorization":%q},"padding":%q}`, shown, n, hidden, hidden, hidden, padding)
		if n%2 == 0 {
			arguments = strings.ReplaceAll(arguments, ",", ",\n\r\n ")
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"e__echo","arguments":` + arguments + `}}`
		resp := postTo(t, g.URL, "application/json", body, func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Accept", "application/json, text/event-stream")
		})
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), shown) {
			t.Errorf("got %s, %v", text, err)
		}
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := range calls {
				send(c*calls + n)
			}
		})
	}
	wg.Wait()
	if err := g.Process.Stop(time.Minute); err != nil { // what is not written yet is written then
		t.Fatal(err)
	}
	files, err := filepath.Glob(file + "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("files %q, %v; want several", files, err)
	}
	events := map[string]int{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 || info.Size() > 1<<20 {
			t.Errorf("%s: %v, %d bytes, %v", name, info.Mode(), info.Size(), err)
		}
		for _, secret := range []string{key, hidden, hex.EncodeToString(digest[:])} {
			if strings.Contains(string(data), secret) {
				t.Errorf("%s contains %s", name, secret)
			}
		}
		for line := range strings.Lines(string(data)) {
			var l struct {
				Event     string
				Principal struct{ Subject string }
				Arguments struct{ Message string }
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Principal.Subject != "ann" || l.Event == "decision" && !strings.HasPrefix(l.Arguments.Message, shown) {
				t.Errorf("the line %q: %v", line, err)
			}
			events[l.Event]++
		}
	}
	if events["decision"] != callers*calls || events["end"] != callers*calls {
		t.Errorf("events %v, want %d of each", events, callers*calls)
	}
	if out := g.Process.Output(); strings.Contains(out, key) || strings.Contains(out, hidden) || strings.Contains(out, shown) {
		t.Error("the log contains a key or an argument")
	}
}
