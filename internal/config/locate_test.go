package config

import (
	"os"
	"path/filepath"
	"testing"
)

// A gateway is found with a file that has errors, as far as its addresses can be read, and never at an address that the file
// may not mean.
func TestLocated(t *testing.T) {
	const usual = "127.0.0.1:9090"
	for name, tc := range map[string]struct{ file, data, admin, stateDir string }{
		"a wrong value":           {data: "state_dir: state\nadmin: {listen: '127.0.0.1:7'}\npolicy: {default: dney}\nupstreams: {a: {command: a}}", admin: "127.0.0.1:7", stateDir: "state"},
		"an unknown key":          {data: "state_dir: state\nadmin: {listen: '127.0.0.1:7', tokn: x}\nupstreamz: {}", admin: "127.0.0.1:7", stateDir: "state"},
		"no env_file":             {data: "env_file: gone\nadmin: {listen: '127.0.0.1:7', token: '${GONE}'}\nupstreams: {a: {command: a}}", admin: "127.0.0.1:7"},
		"the usual address":       {data: "policy: {default: dney}", admin: usual},
		"not YAML above":          {data: "upstreams:\n  a:\n     command: a\n    args: [x]\nadmin:\n  listen: 127.0.0.1:7\nstate_dir: state\n", admin: "127.0.0.1:7", stateDir: "state"},
		"not YAML below":          {data: "# admin\nstate_dir: state\nadmin:\n# here\n  listen: 127.0.0.1:7\nupstreams:\n  a: {command: [\n", admin: "127.0.0.1:7", stateDir: "state"},
		"not YAML, a list before": {data: "allowed_hosts:\n- a\nadmin: {\n  listen: 127.0.0.1:7\n}\nupstreams: [\n", admin: "127.0.0.1:7"},
		"not YAML, no admin":      {data: "listen: 127.0.0.1:6\nupstreams: [\n# admin: x\n", admin: usual},
		"not YAML, above admin":   {data: "upstreams: {\nadmin: {listen: '127.0.0.1:7'}\n", admin: "127.0.0.1:7"},

		"a wrong address":           {data: "state_dir: state\nadmin: {listen: '127.0.0.1:x'}", stateDir: "state"},
		"an unset address":          {data: "admin: {listen: '${GONE}'}"},
		"no mapping of admin":       {data: "admin: 127.0.0.1:7"},
		"two admins":                {data: "admin: {listen: '127.0.0.1:7'}\nadmin: {listen: '127.0.0.1:8'}"},
		"not YAML in admin":         {data: "state_dir: state\nadmin: {listen: '127.0.0.1:7'\nupstreams: {a: {command: a}}", stateDir: "state"},
		"not YAML, admin in braces": {data: "{upstreams: {a: {command: a},\n admin: {listen: '127.0.0.1:7'}}"},
		"no mapping":                {data: "admin"},
		"no text":                   {data: "admin: \x00"},
		"no JSON":                   {file: "gateway.json", data: `{"admin": {"listen": "127.0.0.1:7"}, "upstreams": {`},
		"no file":                   {file: "gone/gateway.yaml"},
	} {
		file := filepath.Join(t.TempDir(), "gateway.yaml")
		if tc.file != "" {
			file = filepath.Join(filepath.Dir(file), tc.file)
		}
		if tc.data != "" {
			if err := os.WriteFile(file, []byte(tc.data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Load(file, testEnv); err == nil {
			t.Errorf("%s: has no error", name)
		}
		stateDir := Default(testEnv).StateDir
		if tc.stateDir != "" {
			stateDir = filepath.Join(filepath.Dir(file), tc.stateDir)
		}
		if got := Located(file, testEnv); got.Admin.Listen != tc.admin || got.StateDir != stateDir {
			t.Errorf("%s: got %q and %q, want %q and %q", name, got.Admin.Listen, got.StateDir, tc.admin, stateDir)
		}
	}
}
