package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/test/internal/rig"
)

// TestReasonFromARequestID walks from the request id of a refused call to the reason, as docs/operations.md says: exactly one line of the log, or one
// of the audit for a decision, has the id and the reason.
func TestReasonFromARequestID(t *testing.T) {
	const ann, former = "mcpgw_0123456789_of_ann", "mcpgw_0123456789_former"
	digest := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:])
	}
	issuer := gatewaytest.NewIssuer(t)
	everything := rig.EverythingCommand(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	g := rig.StartOne(t, "it reads the log of one process", rig.Config{
		"startup_wait": "60s",
		"auth": rig.Config{
			"mode":     []string{"api-key", "jwt"},
			"api_keys": []rig.Config{{"id": "ann", "sha256": digest(ann)}, {"id": "former", "sha256": digest(former), "expires": "2026-01-01"}},
			"jwt":      []rig.Config{{"issuer": issuer.URL, "audience": "gateway"}},
		},
		"policy": rig.Config{"default": "allow", "rules": []rig.Config{
			{"name": "no-sums", "effect": "deny", "what": rig.Config{"tools": []string{"e__get-sum"}}},
			{"name": "rare", "effect": "allow", "what": rig.Config{"tools": []string{"e__echo"}}, "limit": rig.Config{"rate": "1/h", "burst": 1}},
		}},
		"telemetry": rig.Config{"log": rig.Config{"format": "json"}, "audit": rig.Config{"file": audit}},
		"upstreams": rig.Upstreams{
			"e":    {"command": everything[0], "args": everything[1:]},
			"gone": {"url": "http://127.0.0.1:1/mcp"},
		},
	})
	call := func(key, tool string) (id, body string) {
		resp := postTo(t, g.URL, "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"message":"hello"}}}`,
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) })
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Get("X-Request-Id"), string(text)
	}
	if _, body := call(ann, "e__echo"); !strings.Contains(body, "hello") {
		t.Fatalf("the call that the limit allows: %s", body)
	}
	cases := []struct {
		name, key, tool string
		inAudit         bool
		want            map[string]string // members of the line with the reason
		id              string
	}{
		{name: "a policy rule", key: ann, tool: "e__get-sum", want: map[string]string{"msg": "call", "outcome": "refused", "rule": "no-sums", "principal": "ann", "key": "ann", "reason": `rule "no-sums" denies it`}},
		{name: "a policy rule, audit", key: ann, tool: "e__get-sum", inAudit: true, want: map[string]string{"event": "decision", "effect": "deny", "rule": "no-sums"}},
		{name: "an expired key", key: former, tool: "e__echo", want: map[string]string{"msg": "authentication failed", "reason": "expired_key", "key": "former"}},
		{name: "a wrong audience", key: issuer.Token("another", nil), tool: "e__echo", want: map[string]string{"msg": "authentication failed", "reason": "audience"}},
		{name: "a limit", key: ann, tool: "e__echo", want: map[string]string{"msg": "call", "outcome": "limited", "reason": `the limit of rule "rare", 1 call per hour for each principal, is reached`}},
		{name: "a down upstream", key: ann, tool: "gone__x", want: map[string]string{"msg": "call", "outcome": "unavailable", "upstream": "gone", "reason": "…nothing listens on"}},
	}
	for i := range cases {
		c := &cases[i]
		var body string
		if c.id, body = call(c.key, c.tool); c.id == "" || !strings.Contains(body, `"requestId":"`+c.id+`"`) {
			t.Errorf("%s: the id is %q, the answer %s", c.name, c.id, body)
		}
	}
	if err := g.Process.Stop(time.Minute); err != nil { // all lines are written then
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		text := g.Process.Output()
		if c.inAudit {
			text = string(recorded)
		}
		found := 0
		for line := range strings.Lines(text) {
			var l map[string]any
			if !strings.Contains(line, c.id) || json.Unmarshal([]byte(line), &l) != nil || l["request"] != c.id {
				continue
			}
			match := true
			for member, want := range c.want {
				got, _ := l[member].(string)
				part, isPart := strings.CutPrefix(want, "…")
				match = match && (got == want || isPart && strings.Contains(got, part))
			}
			if match {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %d lines with the id %s have the reason %v:\n%s", c.name, found, c.id, c.want, text)
		}
	}
}
