package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command that contains its arguments is refused, and the error shows the right split. A
// program with spaces in its name or folder is accepted.
func TestCommandLines(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"My App/server one", "bin/odd name", "bin/npx", "bin/python", "bin/node", "bin/odd", "run.sh"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"PATH": filepath.Join(dir, "bin"), "LINE": "npx -y tok-en"}[name]
		return v, ok
	}
	for more, tests := range map[string]map[string]string{
		"": {
			"npx -y server":                         `command: npx, args: ["-y", "server"]`,
			"python /srv/server.py":                 `command: python, args: ["/srv/server.py"]`,
			`node "my server.js" 'a b'`:             `command: node, args: ["my server.js", "a b"]`,
			filepath.Join(dir, "run.sh") + " a":     `args: ["a"]`,
			"npx --in ${LINE}":                      `command: npx, args: ["--in", "${LINE}"]`,
			"npx --key tok-en":                      "put the arguments into args",
			"npx KEY=tok-en":                        "put the arguments into args",
			"npx redis://:tok-en@localhost":         "put the arguments into args",
			"${LINE}":                               "put the arguments into args",
			"odd name":                              "",
			"absent -y server":                      "",
			"odd":                                   "",
			filepath.Join(dir, "My App/server one"): "",
			"/not there/yet":                        "",
			`C:\Program Files\nodejs\node.exe`:      "",
		},
		`, args: ["z"]`:          {"npx -y server": `args: ["-y", "server"], before the existing ones`},
		`, cwd: "."`:             {"./run.sh --x": `command: ./run.sh, args: ["--x"]`, "My App/server one": "", "bin/npx": ""},
		`, disabled: true`:       {"npx -y server": ""},
		`, cwd: "My App"`:        {"./server one": "", "./run.sh x": ""},
		`, env: {PATH: "/none"}`: {"npx -y": ""},
	} {
		for command, want := range tests {
			_, err := Parse(filepath.Join(dir, "gateway.yaml"), fmt.Appendf(nil, "{upstreams: {a: {command: %q%s}}}", command, more), env)
			switch {
			case want == "" && err != nil:
				t.Errorf("%s%s: %v", command, more, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "tok-en")):
				t.Errorf("%s%s: %v, want %s", command, more, err, want)
			}
		}
	}
}
