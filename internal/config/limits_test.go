package config

import (
	"strings"
	"testing"
)

// Limits that the system does not support are reported, and not ignored.
func TestUnsupportedLimits(t *testing.T) {
	before := system
	defer func() { system = before }()
	for name, want := range map[string][]string{
		"linux": nil, "darwin": {"memory has no effect"}, "windows": {"memory has no effect", "files has no effect"},
	} {
		system = name
		c, err := Parse("gateway.yaml", []byte("upstreams: {a: {command: cat, limits: {memory: 512MiB, files: 1024}}}"), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Warnings) != len(want) {
			t.Errorf("%s: the warnings are %v", name, c.Warnings)
			continue
		}
		for i, w := range c.Warnings {
			if !strings.HasPrefix(w.Msg, want[i]) || w.Path != "upstreams.a.limits" {
				t.Errorf("%s: the warning is %v", name, w)
			}
		}
	}
}
