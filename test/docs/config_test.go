package docs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/config"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// anyVariable is the value of every variable in a configuration. It is long enough for a key.
const anyVariable = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func anyEnv(string) (string, bool) { return anyVariable, true }

// parts are the possible places of a part of a configuration. A block is tried as a complete file first. A part belongs to the first place at which
// all its keys are known, unless its path follows the word yaml, as in "yaml upstreams.tickets.auth".
var parts = []string{"", "upstreams", "upstreams.example", "policy.rules", "auth.api_keys", "auth.jwt", "auth.mtls"}

// configuration loads a block with the gateway's loader.
func configuration(t *testing.T, b block) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(b.text), &root); err != nil || len(root.Content) != 1 {
		t.Fatalf("is not one YAML document: %v", err)
	}
	node := root.Content[0]
	switch {
	case has(node, "apiVersion") && has(node, "kind"):
		return // a Kubernetes object; deploy/test decodes those in deploy
	case has(node, "config") || strings.HasPrefix(filepath.Base(b.rest), "values"):
		chartValues(t, b, node)
		return
	case b.rest != "" && !strings.HasSuffix(b.rest, ".yaml"):
		loads(t, complete(t, b.text, b.rest), b.files)
		return
	}
	text := b.text
	for _, part := range parts {
		if fits(node, part) {
			if part == "" && slices.ContainsFunc([]string{"upstreams", "mcpServers", "servers"}, func(k string) bool { return has(node, k) }) {
				break // a complete file
			}
			text = complete(t, b.text, part)
			break
		}
	}
	loads(t, text, b.files)
}

// has reports whether a mapping has a key.
func has(n *yaml.Node, key string) bool { return slices.Contains(keysOf(n), key) }

func keysOf(n *yaml.Node) (keys []string) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			keys = append(keys, n.Content[i].Value)
		}
	}
	return keys
}

// fits reports whether the schema knows the content of a block at a place.
func fits(n *yaml.Node, part string) bool {
	if part == "upstreams" {
		ok := n.Kind == yaml.MappingNode
		for i := 1; ok && i < len(n.Content); i += 2 {
			ok = n.Content[i].Kind == yaml.MappingNode && fits(n.Content[i], "upstreams.example")
		}
		return ok
	}
	list := slices.Contains([]string{"policy.rules", "auth.api_keys", "auth.jwt", "auth.mtls"}, part)
	if list {
		ok := n.Kind == yaml.SequenceNode
		for i := 0; ok && i < len(n.Content); i++ {
			ok = known(n.Content[i], part+"[]")
		}
		return ok
	}
	return known(n, strings.Replace(part, "upstreams.example", "upstreams.*", 1))
}

func known(n *yaml.Node, pattern string) bool {
	keys := keysOf(n)
	for _, key := range keys {
		if !slices.ContainsFunc(config.Keys(), func(k config.Key) bool {
			parent, last := "", k.Path
			if i := strings.LastIndex(k.Path, "."); i >= 0 {
				parent, last = k.Path[:i], k.Path[i+1:]
			}
			return parent == pattern && (last == key || slices.Contains(k.Aliases, key))
		}) {
			return false
		}
	}
	return len(keys) > 0
}

// complete puts a part at its place and adds the required keys: an upstream with a command or a URL, and, for rules, keys and issuers, the
// authentication that uses them.
func complete(t *testing.T, text, part string) string {
	t.Helper()
	const remote = "https://mcp.example.com/mcp"
	var value any
	must(t, yaml.Unmarshal([]byte(text), &value))
	if part != "" {
		for _, name := range slices.Backward(strings.Split(part, ".")) {
			value = map[string]any{name: value}
		}
	}
	whole := value.(map[string]any)
	if whole["policy"] != nil && whole["auth"] == nil {
		whole["public_url"] = "https://gateway.example.com"
		whole["auth"] = map[string]any{"mode": "jwt", "jwt": []any{map[string]any{"issuer": "https://idp.example.com"}}}
	}
	if mode := map[string]string{"auth.api_keys": "api-key", "auth.jwt": "jwt", "auth.mtls": "mtls"}[part]; mode != "" {
		whole["auth"].(map[string]any)["mode"] = mode
		whole["public_url"] = "https://gateway.example.com"
		if mode == "mtls" {
			whole["tls"] = map[string]any{"cert": "cert.pem", "key": "key.pem", "client_ca": "ca.pem"}
		}
		if whole["policy"] == nil {
			whole["policy"] = map[string]any{"default": "allow"}
		}
	}
	if upstreams, ok := whole["upstreams"].(map[string]any); ok {
		for _, u := range upstreams {
			if u, ok := u.(map[string]any); ok && !slices.ContainsFunc([]string{"command", "url", "serverUrl", "httpUrl"}, func(k string) bool { return u[k] != nil }) {
				u["url"] = remote
			}
		}
	} else {
		whole["upstreams"] = map[string]any{"example": map[string]any{"url": remote}}
	}
	out, err := yaml.Marshal(whole)
	must(t, err)
	return string(out)
}

var secretFile = regexp.MustCompile(`\$\{file:([^}]+)\}`)

// loads fails the test unless the gateway's loader accepts a configuration without errors and warnings. It creates the files that the configuration
// refers to: a key in PEM format by the file's name, otherwise a text that serves as any secret. The document's own files are created, too.
func loads(t *testing.T, text string, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if filepath.IsLocal(name) {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
	}
	text = secretFile.ReplaceAllStringFunc(text, func(ref string) string {
		name := secretFile.FindStringSubmatch(ref)[1]
		path := filepath.Join(dir, filepath.Base(name))
		content := []byte(anyVariable + "\n")
		if filepath.Ext(name) == ".pem" {
			content = keyPEM(t)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return "${file:" + path + "}"
	})
	c, err := config.Parse(filepath.Join(dir, "gateway.yaml"), []byte(text), anyEnv)
	if err != nil {
		t.Fatalf("the gateway rejects\n%s\n%v", text, err)
	}
	if err := jsonSchema(t).Validate(plain(t, text)); err != nil {
		t.Errorf("the JSON Schema rejects\n%s\n%v", text, err)
	}
	for _, w := range c.Warnings {
		t.Errorf("the gateway warns: %v", w)
	}
}

func keyPEM(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// chartValues checks chart values against the chart's own, and their config with the loader, at the addresses that the chart adds.
func chartValues(t *testing.T, b block, n *yaml.Node) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/helm/mcp-gateway/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all, given map[string]any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(n) {
		if _, ok := all[key]; !ok {
			t.Errorf("the chart has no value %s", key)
		}
	}
	if err := yaml.Unmarshal([]byte(b.text), &given); err != nil {
		t.Fatal(err)
	}
	if c, ok := given["config"].(map[string]any); ok {
		for key, address := range map[string]any{"listen": "0.0.0.0:8080", "admin": map[string]any{"listen": "0.0.0.0:9090"}} {
			if c[key] == nil {
				c[key] = address
			}
		}
		text, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		loads(t, string(text), nil)
	}
}

// condition compiles CEL conditions. Each paragraph is the when of a rule.
func condition(t *testing.T, b block) {
	for _, when := range strings.Split(strings.TrimSpace(b.text), "\n\n") {
		rule, err := yaml.Marshal([]any{map[string]any{"name": "example", "effect": "allow", "when": when}})
		must(t, err)
		loads(t, complete(t, string(rule), "policy.rules"), nil)
	}
}

// TestParts completes a part of each kind.
func TestParts(t *testing.T) {
	for i, b := range []block{
		{text: "policy:\n  rules:\n    - {name: a, effect: allow, who: {groups: [x]}}"},
		{text: "- {name: a, effect: allow, who: {groups: [x]}}"},
		{text: "session: per-client"},
		{text: "files: {command: npx}\nsearch: {session: shared}"},
		{text: "- {id: ci, sha256: " + anyVariable + "}"},
		{text: "- {issuer: https://idp.example.com}"},
		{text: "- {cn: admin}"},
		{text: "bridge: {keys: [\"${file:/run/secrets/bridge-key}\"]}"},
		{rest: "upstreams.tickets.auth", text: "kind: client-credentials\nclient_id: x\nprivate_key: ${file:/run/secrets/t.pem}\nissuer: https://login.example.com"},
		{text: "replicas: 2\nconfig:\n  auth: {insecure: true}\n  allowed_hosts: [gateway]\n  upstreams: {a: {url: \"http://a/mcp\"}}"},
		{text: "policy: {files: [rules.yaml]}", files: map[string]string{"rules.yaml": "[{name: a, effect: allow}]"}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { configuration(t, b) })
	}
	condition(t, block{text: "args.x == 1\n\n'a' in principal.groups"})
}

// jsonSchema is the JSON Schema that gateway schema prints.
func jsonSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.JSONSchema()))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource(config.SchemaID, doc))
	schema, err := c.Compile(config.SchemaID)
	must(t, err)
	return schema
}

// plain is the content of a configuration as JSON has it.
func plain(t *testing.T, text string) any {
	t.Helper()
	var content any
	must(t, yaml.Unmarshal([]byte(text), &content))
	data, err := json.Marshal(content)
	must(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	must(t, err)
	return value
}
