package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
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

// checked makes the loader check the conditions of rules, as in the gateway.
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

// corpus returns the names of the configurations in a folder.
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

// dump returns a configuration as YAML with redacted secrets. It has only the keys that differ
// from the defaults, so a new key changes no golden.
func dump(t *testing.T, c *Config) string {
	t.Helper()
	all := sparse(t, reflect.ValueOf(c).Elem(), reflect.ValueOf(Default(testEnv)).Elem())
	var upstreams yaml.Node
	upstreams.Kind = yaml.SequenceNode
	for _, u := range c.Upstreams {
		u.URL = u.RedactedURL()
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, p := range [][2]string{{"name", u.Name}, {"key", u.Key}, {"pos", u.Pos.String()}} {
			n.Content = append(n.Content, yamlOf(t, p[0]), yamlOf(t, p[1]))
		}
		n.Content = append(n.Content, sparse(t, reflect.ValueOf(u), reflect.ValueOf(DefaultUpstream(u.Key))).Content...)
		if err := u.UnsetError(); err != nil {
			n.Content = append(n.Content, yamlOf(t, "unset"), yamlOf(t, strings.Split(err.Error(), "\n")))
		}
		upstreams.Content = append(upstreams.Content, n)
	}
	var warnings []string
	for _, w := range c.Warnings {
		warnings = append(warnings, w.String())
	}
	if len(upstreams.Content) > 0 {
		all.Content = append(all.Content, yamlOf(t, "upstreams"), &upstreams)
	}
	if len(warnings) > 0 {
		all.Content = append(all.Content, yamlOf(t, "warnings"), yamlOf(t, warnings))
	}
	out, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// sparse returns a struct of the schema as a mapping of the keys that differ from def.
func sparse(t *testing.T, v, def reflect.Value) *yaml.Node {
	t.Helper()
	n := &yaml.Node{Kind: yaml.MappingNode}
	switch named := v.Interface().(type) {
	case Override:
		n.Content = append(n.Content, yamlOf(t, "native"), yamlOf(t, named.Native))
	case Profile:
		n.Content = append(n.Content, yamlOf(t, "name"), yamlOf(t, named.Name))
	}
	for _, f := range shapeOf(v.Type()).fields {
		fv, fd := v.FieldByIndex(f.index), def.FieldByIndex(f.index)
		if digestOf(fv) == digestOf(fd) {
			continue
		}
		value := &yaml.Node{Kind: yaml.SequenceNode}
		switch {
		case f.isStruct():
			value = sparse(t, fv, fd)
		case fv.Kind() == reflect.Slice && fv.Type().Elem().Kind() == reflect.Struct && fv.Type().Elem() != reflect.TypeFor[Secret]():
			elem := reflect.New(fv.Type().Elem()).Elem()
			setDefaults(elem)
			for i := range fv.Len() {
				value.Content = append(value.Content, sparse(t, fv.Index(i), elem))
			}
		default:
			value = yamlOf(t, fv.Interface())
		}
		n.Content = append(n.Content, yamlOf(t, f.name), value)
	}
	return n
}

func yamlOf(t *testing.T, v any) *yaml.Node {
	t.Helper()
	n := new(yaml.Node)
	if err := n.Encode(v); err != nil {
		t.Fatal(err)
	}
	return n
}
