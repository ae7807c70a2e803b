package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// plainly matches errors that the JSON Schema finds too.
var plainly = regexp.MustCompile(`(?m)^[^r].*: (unknown key|must be a mapping|must be a list|must be true or false, not|must be a whole number, not [^"]|must be a duration with a unit)`)

// TestJSONSchema validates the corpus and the example: what Load accepts is valid, and files with unknown keys or wrong
// types are not.
func TestJSONSchema(t *testing.T) {
	schema := compiled(t)
	good := []string{"../../gateway.yaml.example"}
	for _, name := range corpus(t, "testdata/good") {
		if name == "timeout-host.json" { // only a host's own file may have such a number
			continue
		}
		good = append(good, filepath.Join("testdata/good", name))
	}
	for _, file := range good {
		if err := schema.Validate(contentOf(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	refused := 0
	for _, name := range corpus(t, "testdata/bad") {
		file := filepath.Join("testdata/bad", name)
		want, err := os.ReadFile(file + ".err")
		if err != nil || !plainly.Match(want) || strings.Contains(string(want), "expand to more than") || strings.Contains(name, "cycle") {
			continue
		}
		refused++
		if err := schema.Validate(contentOf(t, file)); err == nil {
			t.Errorf("%s is valid by the schema, but Load says:\n%s", file, want)
		}
	}
	if refused < 15 {
		t.Errorf("only %d bad files were tried", refused)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// contentOf returns the content of a file as a validator sees it.
func contentOf(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	root, parseErr := configfile.Parse(file, data)
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	return plainValue(t, root)
}

// plainValue is a node as JSON has it.
func plainValue(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n = configfile.Resolve(n); n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any)
		r := configfile.Reader{Report: configfile.NewReport()}
		for _, p := range r.Pairs(n, configfile.Path{}) {
			out[p.Name] = plainValue(t, p.Value)
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			out = append(out, plainValue(t, item))
		}
		return out
	}
	var v any = n.Value
	if n.Tag != "!!timestamp" && n.Tag != "!!merge" {
		if err := n.Decode(&v); err != nil {
			t.Fatal(err)
		}
	}
	return v
}
