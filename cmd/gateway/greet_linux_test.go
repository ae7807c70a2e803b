package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
)

// The text at the start has the addresses, and lines to paste that fit this gateway: the header of a key only if it takes keys,
// its public URL, its profiles, and the console only if it is served.
func TestGreeting(t *testing.T) {
	const key = "auth: {mode: api-key, api_keys: [{id: a, sha256: c06cd4f9e2de11652ca02ed5e503616f0f4554554e51ee0f053db53964231527}]}\npolicy: {default: allow}\n"
	for name, tt := range map[string]struct {
		yaml, moved string
		want, not   []string
	}{
		"a demo": {
			want: []string{"No gateway.yaml found: serving the built-in demo upstreams (cafe, clock, notes).", "MCP endpoint http://127.0.0.1:", "admin http://127.0.0.1:", "console http://127.0.0.1:", `"type": "http", "url": "http://127.0.0.1:`, `"args": ["stdio"]`, `"gateway init" makes a gateway.yaml`, "Or try it from a shell:"},
			not:  []string{"profiles", "KEY", "connect HOST --http", "taken"},
		},
		"usual addresses are taken": {
			moved: "127.0.0.1:8080 is taken by the demo (process 1): MCP is on 127.0.0.1:7171 (choose with --listen).\n",
			want:  []string{"127.0.0.1:8080 is taken by the demo (process 1): MCP is on 127.0.0.1:7171 (choose with --listen)."},
		},
		"a file": {
			yaml: "upstreams: {a: {command: cat, disabled: true}, b: {command: cat, disabled: true}}\n",
			want: []string{"Serving gateway.yaml (", "This writes the host's file for you:", "gateway connect HOST --http http://127.0.0.1:", `"args": ["stdio", "-c", "/`, `/gateway.yaml"]`},
			not:  []string{"gateway init", "No gateway.yaml found"},
		},
		"keys": {
			yaml: key + "upstreams: {a: {command: cat, disabled: true}}\n",
			want: []string{`"headers": {"Authorization": "Bearer KEY"}`, "Or try it from a shell, with a key or a token for KEY:", "-H 'Authorization: Bearer KEY'"},
		},
		"a public URL and profiles": {
			yaml: key + "public_url: https://gateway.example.com\nupstreams: {a: {command: cat, disabled: true}}\nprofiles: {coding: {}, ops: {}}\n",
			want: []string{"MCP endpoint https://gateway.example.com/mcp (here: http://127.0.0.1:", "profiles coding, ops (at https://gateway.example.com/mcp/NAME)", `"url": "https://gateway.example.com/mcp"`, "curl -sS https://gateway.example.com/mcp"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			o := gateway.Options{Demo: tt.yaml == "", Version: "test", Logger: zap.NewNop(), Config: config.Default(lookupEnv)}
			if !o.Demo {
				if err := os.WriteFile("gateway.yaml", []byte(tt.yaml), 0o600); err != nil {
					t.Fatal(err)
				}
				var err error
				if o.Config, err = config.Load("gateway.yaml", lookupEnv); err != nil {
					t.Fatal(err)
				}
				o.Source.File = "gateway.yaml"
			}
			if err := o.Config.Override("127.0.0.1:0", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			o.Config.StateDir = t.TempDir()
			g, err := gateway.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			lines := onTerminal(t, func(inside *os.File) { greet(console.NewScreen(inside, true), g, o.Source.File, tt.moved) })
			for _, line := range lines {
				// Paths of programs and files cannot be broken.
				if w := console.Width(line); w > helpColumns && !strings.Contains(line, `"/`) {
					t.Errorf("%d columns: %s", w, line)
				}
			}
			text := strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(text, not) {
					t.Errorf("%q is in\n%s", not, text)
				}
			}
		})
	}
}
