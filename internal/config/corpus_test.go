package config

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/policy"
)

var update = flag.Bool("update", false, "write the goldens anew")

// testEnv is the environment of every test here.
func testEnv(name string) (string, bool) {
	value, ok := map[string]string{
		"HOME": "/home/u", "PORT": "1234", "DEPTH": "32", "YES": "true", "EMPTY": "", "NESTED": "${TOKEN}",
		"TOKEN": "s3cret-t0ken", "ADMIN_TOKEN": "s3cret-admin", "PERPLEXITY_KEY": "s3cret-input", "SECRET": "s3cret-text",
	}[name]
	return value, ok
}

// checked has the conditions of rules checked, as the gateway has it.
var checked = WithConditions(func(c Condition) []Finding {
	var found []Finding
	for _, f := range policy.Check(c.Text, c.Tools, c.Resources, c.Prompts) {
		found = append(found, Finding(f))
	}
	return found
})

// TestGood compares the interpretation of every good file with its golden.
func TestGood(t *testing.T) {
	for _, file := range corpus(t, "testdata/good") {
		t.Run(file, func(t *testing.T) {
			t.Chdir("testdata/good")
			c, err := Load(file, testEnv, checked)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file+".golden", dump(t, c))
		})
	}
}

// TestBad compares all errors of every bad file with its golden.
func TestBad(t *testing.T) {
	for _, file := range corpus(t, "testdata/bad") {
		t.Run(file, func(t *testing.T) {
			t.Chdir("testdata/bad")
			c, err := Load(file, testEnv, checked)
			if err == nil {
				t.Fatalf("no error; the configuration is\n%s", dump(t, c))
			}
			if _, ok := err.(Errors); !ok || c != nil {
				t.Fatalf("got %v, %T; want no configuration and Errors", c, err)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a secret: %v", err)
			}
			golden(t, file+".err", err.Error()+"\n")
		})
	}
}

// corpus are the configurations in a folder.
func corpus(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); slices.Contains([]string{".yaml", ".json", ".jsonc", ".toml"}, ext) && !strings.HasPrefix(e.Name(), "rules-") {
			files = append(files, e.Name())
		}
	}
	if len(files) == 0 {
		t.Fatalf("no configurations in %s", dir)
	}
	return files
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", file, diff)
	}
}

// dump is a configuration as YAML, secrets redacted.
func dump(t *testing.T, c *Config) string {
	t.Helper()
	type upstream struct {
		Name, Key, Pos string
		Upstream       `yaml:",inline"`
	}
	all := struct {
		Config    `yaml:",inline"`
		Upstreams []upstream
		Warnings  []string
	}{Config: *c}
	for _, u := range c.Upstreams {
		u.URL = u.RedactedURL()
		all.Upstreams = append(all.Upstreams, upstream{u.Name, u.Key, u.Pos.String(), u})
	}
	for _, w := range c.Warnings {
		all.Warnings = append(all.Warnings, w.String())
	}
	out, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
