package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/hostimport"
)

// An editor knows no locks. If it has written gateway.yaml in the meantime, save writes nothing, not even to the env_file.
func TestRefusedEditLeavesNoValue(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, values := range []string{"", "OTHER=1\n"} {
		name := filepath.Join(t.TempDir(), "gateway.yaml")
		env := filepath.Join(filepath.Dir(name), "gateway.env")
		write := func(file, text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(name, "env_file: gateway.env\nupstreams: {a: {command: cat}}\n")
		if values != "" {
			write(env, values)
		}
		o := runOptions{file: name}
		e, err := o.edit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{word("command"), word("cat")}}
		if bad := e.Set(e.section, "b", server); bad != nil {
			t.Fatal(bad)
		}
		if err := e.addValues([]hostimport.Variable{{Name: "B_T", Moved: true}}, "B_T='s3cret'\n"); err != nil {
			t.Fatal(err)
		}
		edited := "env_file: gateway.env\nupstreams: {c: {command: cat}}\n"
		write(name, edited)
		if err := e.save(io.Discard, "b"); err == nil || !strings.Contains(err.Error(), "gateway.yaml has changed in the meantime: run the command again") {
			t.Errorf("the error is %v", err)
		}
		if got, _ := os.ReadFile(name); string(got) != edited {
			t.Errorf("gateway.yaml is %q", got)
		}
		if got, _ := os.ReadFile(env); string(got) != values {
			t.Errorf("gateway.env is %q, want %q", got, values)
		}
	}
}
