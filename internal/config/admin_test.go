package config

import (
	"strings"
	"testing"
)

// Actions of the console without a token are warned of: any program on the machine can send them.
func TestActionsWithoutToken(t *testing.T) {
	for admin, warned := range map[string]bool{
		"{}": false, "{actions: false}": false, "{actions: true}": true, "{actions: true, token: secret-token}": false,
	} {
		c := mustParse(t, "admin: "+admin+"\nupstreams: {a: {command: a}}\n")
		if got := len(c.Warnings) > 0; got != warned {
			t.Errorf("%s: the warnings are %v", admin, c.Warnings)
		}
	}
}

// Settings that keep people from the console at the main address are warned of.
func TestPublicConsole(t *testing.T) {
	rule := "policy: {rules: [{name: ops, effect: allow, who: {groups: [ops]}, what: {admin: true}}, {name: all, effect: allow}]}\n"
	for text, want := range map[string]string{
		"admin: {ui: public}\n" + rule:                                          "",
		"admin: {ui: public}\npolicy: {default: allow}\n":                       "no rule allows anybody",
		"admin: {ui: public}\npublic_url: https://gw.example.com/base\n" + rule: "without a path",
		"admin: {ui: public}\npublic_url: https://gw.example.com\n" + rule:      "",
		"admin: {ui: public}\npublic_url: http://127.0.0.1:8080\n" + rule:       "",
		rule: "set admin.ui: public",
	} {
		c := mustParse(t, text+"auth: {mode: api-key, api_keys: [{id: a, sha256: "+strings.Repeat("a", 64)+"}]}\nupstreams: {a: {command: a}}\n")
		got := ""
		for _, w := range c.Warnings {
			got += w.String()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
