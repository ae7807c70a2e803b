package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

const exampleFile = "../../gateway.yaml.example"

// TestExampleLoads loads the example and checks that its values are the defaults.
func TestExampleLoads(t *testing.T) {
	c, err := Load(exampleFile, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Upstreams) == 0 || len(c.Warnings) > 0 {
		t.Errorf("got %d upstreams and the warnings %v", len(c.Upstreams), c.Warnings)
	}
	c.Upstreams = nil
	if differs := dump(t, c); differs != "{}\n" {
		t.Errorf("the example's values are not the defaults; these differ:\n%s", differs)
	}
}

// TestExampleIsComplete requires every accepted key in the example, in use or as a line
// "#key: value", and every other spelling of a key in the text.
func TestExampleIsComplete(t *testing.T) {
	data, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^( *)#(- )?([a-zA-Z_0-9]+:)`).ReplaceAll(data, []byte("$1$2$3"))
	if string(all) == string(data) {
		t.Fatal("no line of the form #key: value was found")
	}
	root, fault := configfile.Parse("example.yaml", all)
	if fault != nil {
		t.Fatal(fault)
	}
	have := make(map[string]bool)
	patterns(root, "", have)
	for _, key := range Keys() {
		if !have[key.Path] {
			t.Errorf("the key %s is not in the example", key.Path)
		}
		for _, alias := range key.Aliases {
			if !strings.Contains(string(data), alias) {
				t.Errorf("%s, another spelling of %s, is not in the example", alias, key.Path)
			}
		}
	}
}

// patterns adds the keys of a node in the form of Key.Path.
func patterns(n *yaml.Node, at string, have map[string]bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			path := configfile.Join(at, n.Content[i].Value)
			if at == "upstreams" || at == "profiles" || strings.HasSuffix(at, ".override") {
				path = at + ".*"
			}
			have[path] = true
			patterns(n.Content[i+1], path, have)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			patterns(item, at+"[]", have)
		}
	}
}

// TestSchema checks that the declarations of keys agree with each other.
func TestSchema(t *testing.T) {
	seen := make(map[string]bool)
	for _, key := range Keys() {
		if key.Doc == "" || key.Type == "" {
			t.Errorf("%s lacks a type or a line of documentation: %+v", key.Path, key)
		}
		if seen[key.Path] {
			t.Errorf("%s is declared twice", key.Path)
		}
		seen[key.Path] = true
		if _, ok := hostKeys[key.Path]; ok {
			t.Errorf("%s is accepted and without meaning", key.Path)
		}
	}
	for _, want := range []Key{
		{Path: "listen", Type: "string", Default: "127.0.0.1:8080", Doc: "address that MCP is served on, as host:port"},
		{Path: "upstreams.*.url", Aliases: []string{"serverUrl", "httpUrl"}, Type: "string", Doc: "URL of a remote server", Reload: true, Reconnect: true},
		{Path: "upstreams.*.era", Type: "auto | legacy | modern", Default: "auto", Doc: "era of the protocol; auto detects it", Reload: true, Reconnect: true},
		{Path: "upstreams.*.roots[].name", Type: "string", Doc: "name to show", Reload: true, Reconnect: true},
		{Path: "upstreams.*.headers", Type: "mapping of names to secrets", Doc: "HTTP headers for the remote server; {{principal.subject}} and the like stand for the calling principal", Reload: true, Reconnect: true},
		{Path: "limits.max_message", Type: "size", Default: "16MiB", Min: "1KiB", Max: "1GiB", Doc: "largest message accepted from a client or an upstream; the memory for all bodies together follows from it"},
		{Path: "upstreams.*.pin", Type: "true | false", Default: "false", Doc: "whether to hide tools whose definition has changed, until gateway pin accepts it", Reload: true},
	} {
		if !slices.ContainsFunc(Keys(), func(k Key) bool { return cmp.Equal(k, want) }) {
			t.Errorf("the reference lacks %+v", want)
		}
	}
}
