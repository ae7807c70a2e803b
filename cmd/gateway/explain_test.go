package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/gatewaytest"
)

// TestExplainToken judges tokens of an issuer, also while its keys cannot be fetched.
func TestExplainToken(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	dir := t.TempDir()
	const audience = "https://gw.example.com/mcp"
	config := filepath.Join(dir, "gateway.yaml")
	text := fmt.Sprintf(`
auth: {mode: jwt, jwt: [{issuer: %q, audience: %q}]}
upstreams: {x: {command: /no/such/program}}
policy: {rules: [{name: dev, effect: allow, who: {groups: [dev]}}]}
`, iss.URL, audience)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	explain := func(token string, flags ...string) string {
		t.Helper()
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return verb(t, append([]string{"explain", "x__y", "-c", config, "--token", "@" + file}, flags...)...)
	}
	wants := func(got string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %q", got, want)
			}
		}
	}
	dev := map[string]any{"groups": []string{"dev"}}
	good := iss.Token(audience, dev)
	wants(explain(good), "The gateway accepts these credentials.", "ann may use the tool x__y", "decided by the rule dev")
	wants(explain(iss.Token(audience, nil)), "The gateway accepts these credentials.", "ann may not use the tool x__y")
	wants(explain(iss.Token("https://other.example.com", dev)),
		"The gateway refuses these credentials: the token was not issued for this server (audience).", "https://other.example.com", audience, "If they were accepted:\nann may use")
	wants(explain(iss.Token(audience, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), "--json"), `"accepted": false`, `"reason": "expired"`, `"effect": "deny"`)
	wants(explain("opaque"), "refuses these credentials: the token is not a signed JWT access token (token_form).")
	wants(explain("opaque", "--json"), `"effect": "deny"`, `"reason": "token_form"`)
	iss.SetDown(true)
	wants(explain(good), "accepts these credentials, if what is unchecked here is right; a running gateway that has not fetched the keys before", "answers HTTP 503", "signature", "unchecked", "the keys of the issuer cannot be fetched", "ann may use")
	wants(explain(good, "--json"), `"accepted": true`, `"message": "a running gateway that has not fetched the keys before answers HTTP 503 until it can"`)
	wants(explain(iss.Token(audience, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})), "The gateway refuses these credentials: the token has expired (expired).")
	if got := explain(good); strings.Contains(got, good[len(good)-20:]) {
		t.Errorf("the token is printed: %s", got)
	}
}
