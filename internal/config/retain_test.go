package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("gateway.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRetain(t *testing.T) {
	running := parsed(t, `
listen: 127.0.0.1:1
limits: {max_depth: 50}
asks: {label: false}
bridge: {park_ttl: 1m, keys: [AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]}
allowed_hosts: [a]
upstreams: {a: {command: a}}
`)
	next := parsed(t, `
listen: 127.0.0.1:2
limits: {max_depth: 60, max_sessions: 7}
bridge: {park_ttl: 2m}
admin: {token: secret}
upstreams: {b: {command: b}}
`)
	got := next.Retain(running)
	want := []string{"listen", "admin.token", "bridge.keys", "limits.max_depth", "limits.max_sessions"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("retained (-want +got):\n%s", diff)
	}
	if next.Listen != running.Listen || next.Limits != running.Limits || len(next.Bridge.Keys) != 1 || !next.Admin.Token.IsZero() {
		t.Errorf("a key that needs a restart has changed: %+v", next)
	}
	if !next.Asks.Label || next.AllowedHosts != nil || next.Bridge.ParkTTL.Minutes() != 2 || next.Upstreams[0].Name != "b" {
		t.Errorf("a key that a reload applies has not changed: %+v", next)
	}
	if again := next.Retain(running); len(again) > 0 {
		t.Errorf("retained again: %q", again)
	}
}

// A reload that changes auth.mode must not apply the default of the mode that is not in force.
func TestRetainDefaultOfPolicy(t *testing.T) {
	const (
		none  = "upstreams: {a: {command: a}}"
		mtls  = "auth: {mode: mtls, mtls: [{cn: a}]}\ntls: {cert: c, key: k, client_ca: ca}\npolicy: {rules: [{name: r, effect: allow}]}\n" + none
		fixed = "policy: {default: deny}\n" + none
	)
	for name, tc := range map[string]struct {
		running, next string
		want          Effect
	}{
		"authentication is switched on":  {none, mtls, Allow},
		"authentication is switched off": {mtls, none, Deny},
		"the file sets the default":      {mtls, strings.Replace(fixed, "deny", "allow", 1), Allow},
		"nothing changes":                {none, fixed, Deny},
	} {
		t.Run(name, func(t *testing.T) {
			next := parsed(t, tc.next)
			next.Retain(parsed(t, tc.running))
			if next.Policy.Default != tc.want {
				t.Errorf("the default is %s, want %s", next.Policy.Default, tc.want)
			}
		})
	}
}

func TestConnectionHash(t *testing.T) {
	hash := func(text string) string {
		return parsed(t, "upstreams: {a: {command: a, "+text+"}}").Upstreams[0].ConnectionHash()
	}
	plain := hash("")
	for _, same := range []string{
		`prefix: p`, `required: true`, `tools: {deny: [x], override: {t: {name: u}}}`, `resources: {allow: []}`, `prompts: {deny: ["*"]}`,
		`conformance: strict`, `validate_input: true`, `sanitize: [ansi]`, `pin: true`,
	} {
		if hash(same) != plain {
			t.Errorf("%s changes the connection", same)
		}
	}
	for _, other := range []string{`args: [x]`, `env: {A: b}`, `timeout: 5s`, `max_concurrent: 1`, `era: legacy`, `roots: ["file:///a"]`} {
		if hash(other) == plain {
			t.Errorf("%s does not change the connection", other)
		}
	}
}

func TestFilesAreNoted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	main := write("gateway.yaml", `
policy: {files: [rules.yaml]}
upstreams:
  a: {command: a, envFile: a.env, env: {B: "${file:secret}", C: "${file:missing}"}}
`)
	env, secret, rules := write("a.env", "A=1"), write("secret", "s"), write("rules.yaml", "[]")
	seen := map[string]string{}
	c, err := Load(main, os.LookupEnv, WithFiles(func(path string, data []byte) {
		if data == nil {
			seen[path] = "none"
		} else {
			seen[path] = string(data)
		}
	}))
	if err != nil || len(c.Upstreams[0].Unset) != 1 {
		t.Errorf("the missing file: %v, %+v", err, c)
	}
	want := map[string]string{env: "A=1", secret: "s", rules: "[]", filepath.Join(dir, "missing"): "none", main: seen[main]}
	if diff := cmp.Diff(want, seen); diff != "" || seen[main] == "" {
		t.Errorf("noted (-want +got):\n%s", diff)
	}
}

// An upstream whose envFile is gone keeps its connection, as one with a variable that is not set does.
func TestRetainUnreadEnvFile(t *testing.T) {
	vars := filepath.Join(t.TempDir(), "vars.env")
	if err := os.WriteFile(vars, []byte("A=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "upstreams: {a: {command: a, envFile: " + vars + "}, b: {command: b}}"
	running := parsed(t, text)
	if err := os.Remove(vars); err != nil {
		t.Fatal(err)
	}
	next := parsed(t, text)
	kept := next.RetainUnset(running)
	if len(kept) != 1 || kept[0].Name != "a" || len(kept[0].Unset) != 1 {
		t.Errorf("kept %+v", kept)
	}
	if diff := cmp.Diff(running.Upstreams[0].Connection, next.Upstreams[0].Connection, cmp.AllowUnexported(Secret{})); diff != "" {
		t.Errorf("the connection (-want +got):\n%s", diff)
	}
}
