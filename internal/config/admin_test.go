package config

import "testing"

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
