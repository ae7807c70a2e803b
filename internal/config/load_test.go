package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpgateway/internal/configfile"
)

func TestLoadOfNoFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "gateway.yaml"), testEnv)
	if _, ok := errors.AsType[Errors](err); ok || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestBounds(t *testing.T) {
	big := strings.Repeat("#", configfile.MaxSize+1)
	dir := t.TempDir()
	for name, data := range map[string]string{"big.yaml": big, "megabyte": strings.Repeat("x", configfile.MaxSize), "comments": big[:configfile.MaxSize]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	_, loadErr := Load("big.yaml", testEnv)
	_, parseErr := Parse("big.yaml", []byte(big), testEnv)
	_, fileErr := Parse("gateway.yaml", []byte("admin: {token: '${file:big.yaml}'}\nupstreams: {a: {command: a}}"), testEnv)
	_, sumErr := Parse("gateway.yaml", []byte("upstreams: {a: {command: a, args: ['"+strings.Repeat("${file:megabyte}", 17)+"']}}"), testEnv)
	var files strings.Builder
	for i := range 17 {
		fmt.Fprintf(&files, "  u%d: {command: a, envFile: comments}\n", i)
	}
	_, envErr := Parse("gateway.yaml", []byte("upstreams:\n"+files.String()), testEnv)
	list := "[" + strings.Repeat("a,", 1000) + "]"
	_, listErr := Parse("gateway.yaml", []byte("upstreams:\n  a0: {command: a, args: &l "+list+"}\n"+lists(250)), testEnv)
	for _, test := range []struct {
		name, want string
		err        error
	}{
		{"load", "big.yaml:1:1: is larger than 1MiB", loadErr},
		{"parse", "big.yaml:1:1: is larger than 1MiB", parseErr},
		{"file of an expansion", "gateway.yaml:1:16: admin.token: ${file:big.yaml} cannot be read: is larger than 1MiB", fileErr},
		{"sum of expansions", "gateway.yaml:1:36: upstreams.a.args[0]: the variables and files that this file refers to are larger than 16MiB together", sumErr},
		{"sum of environment files", "gateway.yaml:18:30: upstreams.u16.envFile: the variables and files that this file refers to are larger than 16MiB together", envErr},
		{"aliased lists", "the aliases of this file expand to more than 200000 values", listErr},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.err == nil || !strings.HasSuffix(test.err.Error(), test.want) {
				t.Errorf("got  %v\nwant %v", test.err, test.want)
			}
		})
	}
}

// Files of rules are decoded like configurations, with the same advice about UTF-16.
func TestRulesInUTF16(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte("\xff\xfe[\x00]\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Parse(filepath.Join(dir, "gateway.yaml"), []byte("upstreams: {a: {command: a}}\npolicy: {files: [rules.yaml]}"), testEnv)
	if want := filepath.Join(dir, "rules.yaml") + ":1:1: is UTF-16, as some editors save text; save it as UTF-8"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// lists returns n upstreams that use the same YAML alias.
func lists(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("  b" + strings.Repeat("x", i%20) + string(rune('a'+i/20)) + ": {command: a, args: *l}\n")
	}
	return b.String()
}

func TestErrorsUnwrap(t *testing.T) {
	_, err := Parse("gateway.yaml", []byte("lisen: x\nupstreams: {a: {comand: x}}"), testEnv)
	one, ok := errors.AsType[*Error](err)
	if !ok || *one != (Error{File: "gateway.yaml", Line: 1, Col: 1, Path: "lisen", Msg: `unknown key; did you mean "listen"?`}) {
		t.Errorf("got %+v", one)
	}
	if got := strings.Count(err.Error(), "\n"); got != 1 {
		t.Errorf("got %d line ends in %v", got, err)
	}
}

func TestOverride(t *testing.T) {
	c := Default(testEnv)
	for address, want := range map[string]string{
		"127.0.0.1:0":          "",
		"localhost:9":          "",
		"[::1]:9":              "",
		"127.8.8.8:9":          "",
		"[::ffff:127.0.0.1]:9": "",
		"0.0.0.0:9":            exposedMsg,
		":9":                   exposedMsg,
		"[::]:9":               exposedMsg,
		"192.168.0.1:9":        exposedMsg,
		"localhost.x:9":        exposedMsg,
		"127.0.0.1":            "must be host:port, such as 127.0.0.1:8080",
		"127.0.0.1:http":       "must be host:port, such as 127.0.0.1:8080",
		"127.0.0.1:-1":         "must be host:port, such as 127.0.0.1:8080",
		"127.0.0.1:65536":      "must have a port of at most 65535",
	} {
		before, got := c.Listen, ""
		if err := c.Override(address, ""); err != nil {
			got = strings.TrimPrefix(err.Error(), "--listen "+address+": ")
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
		if now := c.Listen; want == "" && now != address || want != "" && now != before {
			t.Errorf("%s: from %s it went to %s", address, before, now)
		}
	}
	c.Auth.Insecure = true
	if err := c.Override("0.0.0.0:9", ""); err == nil || err.Error() != "--listen 0.0.0.0:9: "+reboundMsg {
		t.Errorf("with auth.insecure: %v", err)
	}
	for _, known := range []Config{{AllowedHosts: []string{"gateway"}}, {PublicURL: "https://gateway"}} {
		c := Default(testEnv)
		c.Auth.Insecure, c.AllowedHosts, c.PublicURL = true, known.AllowedHosts, known.PublicURL
		if err := c.Override("0.0.0.0:9", ""); err != nil || c.Listen != "0.0.0.0:9" {
			t.Errorf("with auth.insecure and %v%s: %v, %s", c.AllowedHosts, c.PublicURL, err, c.Listen)
		}
	}
}

func TestOverrideBoth(t *testing.T) {
	c := Default(testEnv)
	if err := c.Override(c.Admin.Listen, c.Listen); err != nil || c.Listen != "127.0.0.1:9090" || c.Admin.Listen != "127.0.0.1:8080" {
		t.Errorf("the addresses did not change places: %v, %s and %s", err, c.Listen, c.Admin.Listen)
	}
	c = Default(testEnv)
	const clash = "listen and admin.listen would be the same address; give each its own, with --listen and --admin-listen"
	for _, test := range []struct{ listen, admin, want string }{
		{"127.0.0.1:9090", "", "--listen 127.0.0.1:9090: " + clash},
		{"", "127.0.0.1:8080", "--admin-listen 127.0.0.1:8080: " + clash},
		{"", "9091", "--admin-listen 9091: must be host:port, such as 127.0.0.1:8080"},
	} {
		if err := c.Override(test.listen, test.admin); err == nil || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
		if c.Listen != "127.0.0.1:8080" || c.Admin.Listen != "127.0.0.1:9090" {
			t.Fatalf("after an error the addresses are %s and %s", c.Listen, c.Admin.Listen)
		}
	}
}

func TestStateDir(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"xdg":          {map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/mcpgateway"},
		"relative xdg": {map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/mcpgateway"},
		"home":         {map[string]string{"HOME": "/h"}, "/h/.local/state/mcpgateway"},
		"nothing":      {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Default(func(name string) (string, bool) { v, ok := test.env[name]; return v, ok }).StateDir
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDefaultUpstream(t *testing.T) {
	got, want := DefaultUpstream("demo"), mustParse(t, "upstreams: {demo: {command: x}}").Upstreams[0]
	got.Command, got.Transport, got.Pos = want.Command, want.Transport, want.Pos
	if got.Hash() != want.Hash() || got.EffectivePrefix() != "demo" {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// lineEnds returns the largest possible number of line ends by YAML's definition.
func lineEnds(data []byte) (n int) {
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		n += bytes.Count(data, []byte(end))
	}
	return n
}

// FuzzParse checks files of both kinds: Parse does not panic, errors have positions, and a
// valid configuration keeps the package's guarantees.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"testdata/good", "testdata/bad"} {
		files, err := filepath.Glob(dir + "/*.[yj]*")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, strings.HasSuffix(file, ".json"))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, json bool) {
		if len(data) > 1<<14 {
			return
		}
		src := source{file: "f.yaml", dir: ".", env: testEnv, read: func(string) ([]byte, error) { return []byte("A=text\n"), nil }}
		if json {
			src.file = "f.json"
		}
		c, err := parse(src, bytes.Clone(data))
		if err != nil {
			for _, e := range err.(Errors) {
				if e.File == src.file && (e.Line < 1 || e.Col < 1 || e.Line > 1+lineEnds(data)) {
					t.Errorf("a position outside of the file: %v", e)
				}
			}
			return
		}
		prefixes := make(map[string]bool)
		for _, u := range c.Upstreams {
			if !namePattern.MatchString(u.Name) || u.Unset == nil && (u.Command == "") == (u.URL == "") || u.Transport == "" || u.Timeout <= 0 {
				t.Errorf("not a valid upstream: %+v", u)
			}
			if p := u.EffectivePrefix(); p != "" {
				if prefixes[p] {
					t.Errorf("the prefix %s is used twice", p)
				}
				prefixes[p] = true
			}
			u.Hash()
		}
	})
}
