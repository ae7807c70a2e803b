package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A program that gets a folder with the files of the gateway is named, by whatever path.
func TestFoldersOfTheGateway(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"mcp/sub", "notes", "state/gateway"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "mcp", "notes/in": "../mcp", "linked.yaml": "mcp/gateway.yaml"} {
		if err := os.Symlink(to, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(home, "notes"))
	at := func(names ...string) string { return filepath.Join(append([]string{home}, names...)...) }
	const (
		both = "a may read and write gateway.yaml and gateway.env: give it another folder"
		all  = "a may read and write gateway.yaml, gateway.env and the state_dir: give it another folder"
	)
	for _, tt := range []struct {
		name, file, entry, want string
	}{
		{"the folder", "mcp/gateway.yaml", fmt.Sprintf("args: [-y, files, %s]", at("mcp")), both},
		{"twice", "mcp/gateway.yaml", fmt.Sprintf("args: [%s, %[1]s/]", at("mcp")), both},
		{"by a link", "mcp/gateway.yaml", fmt.Sprintf("args: [%s]", at("link")), both},
		{"a folder above", "mcp/gateway.yaml", fmt.Sprintf("args: [%s]", home), all},
		{"the root", "mcp/gateway.yaml", "args: [/]", all},
		{"from its cwd", "mcp/gateway.yaml", fmt.Sprintf("cwd: %s, args: [.]", at("mcp", "sub")), ""},
		{"up from its cwd", "mcp/gateway.yaml", fmt.Sprintf("cwd: %s, args: [..]", at("mcp", "sub")), both},
		{"up from the gateway's", "mcp/gateway.yaml", "args: [../mcp]", both},
		{"only the cwd", "mcp/gateway.yaml", fmt.Sprintf("cwd: %s, args: [x]", at("mcp")), ""},
		{"the state", "mcp/gateway.yaml", fmt.Sprintf("args: [%s]", at("state", "gateway")), "a may read and write the state_dir: give it another folder"},
		{"the file is a link out of it", "linked.yaml", fmt.Sprintf("args: [%s]", at("mcp")), "a may read and write linked.yaml: give it another folder"},
		{"a folder with a link to it", "mcp/gateway.yaml", fmt.Sprintf("args: [%s]", at("notes")), ""},
		{"below", "mcp/gateway.yaml", fmt.Sprintf("args: [%s]", at("mcp", "sub")), ""},
		{"no folder", "mcp/gateway.yaml", "args: [serve, '', ./none]", ""},
		{"disabled", "mcp/gateway.yaml", fmt.Sprintf("disabled: true, args: [%s]", at("mcp")), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := fmt.Sprintf("env_file: gateway.env\nstate_dir: %s\nupstreams:\n  b: {command: x}\n  a: {command: x, %s}\n", at("state", "gateway"), tt.entry)
			for name, data := range map[string]string{"mcp/gateway.yaml": text, "mcp/gateway.env": "", "gateway.env": ""} {
				if err := os.WriteFile(at(name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			defer os.Remove(at("gateway.env"))
			c, err := Load(at(tt.file), testEnv)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, w := range c.Warnings {
				if w.Path == "upstreams.a.args" {
					got = append(got, w.Msg)
				}
			}
			if tt.want != "" {
				want = []string{tt.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}
