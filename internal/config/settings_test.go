package config

import (
	"strings"
	"testing"
)

// Settings have every value with its path, and no secret.
func TestSettings(t *testing.T) {
	c, err := Parse("gateway.yaml", []byte(`
listen: 127.0.0.1:1234
admin: {token: hunter-2222}
policy: {default: allow, rules: [{name: first, effect: deny, what: {tools: [files__write]}}]}
profiles: {coding: {upstreams: [files]}}
upstreams:
  files: {command: serve, args: [--api-key, hunter-3333, --token=hunter-4444, plain], env: {API_TOKEN: hunter-5555}}
  web: {url: "https://web.example/mcp?key=hunter-7777", headers: {X-Key: hunter-8888}, timeout: 5s}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range c.Settings() {
		line := s.Path + " = " + s.Value
		if s.Default {
			line += " (default)"
		}
		lines = append(lines, line)
	}
	text := "\n" + strings.Join(lines, "\n") + "\n"
	for _, want := range []string{
		"listen = 127.0.0.1:1234", "admin.token = [redacted]", "admin.ui = true (default)", "policy.rules[0].effect = deny", "policy.rules[0].what.tools = [files__write]",
		"profiles.coding.upstreams = [files]", "upstreams.files.args = [--api-key, [redacted], --token=[redacted], plain]", "upstreams.files.env.API_TOKEN = [redacted]",
		"upstreams.web.headers.X-Key = [redacted]", "upstreams.web.timeout = 5s", "upstreams.web.max_duration = 1h0m0s (default)",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("lacks %q", want)
		}
	}
	if strings.Contains(text, "hunter-") || t.Failed() {
		t.Error(text)
	}
}
