package docs

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"mcpgateway/internal/config"
	"mcpgateway/internal/hostimport"
)

// serverKeys are the keys under which hosts list servers.
var serverKeys = []string{"mcpServers", "servers", "context_servers", "mcp"}

// servers returns the servers of a host's file, nil if the text is no such file.
func servers(text string) map[string]json.RawMessage {
	var file map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &file) != nil {
		return nil
	}
	for _, key := range serverKeys {
		var all map[string]json.RawMessage
		if json.Unmarshal(file[key], &all) == nil && len(all) > 0 {
			return all
		}
	}
	return nil
}

// imported returns the configuration that `gateway import` makes of a host's file. No server may be lost.
func imported(t *testing.T, b block) *config.Config {
	t.Helper()
	im, err := hostimport.Options{Gateways: true}.Import(hostimport.File{Name: "mcp.json", Data: []byte(b.text), Folder: t.TempDir()})
	if err != nil {
		t.Fatalf("%s: gateway import rejects it: %v", b.place, err)
	}
	c, err := config.Parse("gateway.yaml", im.YAML, anyEnv)
	if err != nil {
		t.Fatalf("%s: the output of gateway import cannot be loaded: %v\n%s", b.place, err, im.YAML)
	}
	if len(c.Upstreams) != len(servers(b.text)) {
		t.Errorf("%s: gateway import returns only %d servers", b.place, len(c.Upstreams))
	}
	return c
}

// toGateway returns the entries of a host's file that connect to the gateway, in the inspector's form.
func toGateway(t *testing.T, b block) map[string]any {
	t.Helper()
	entries := make(map[string]any)
	for _, u := range imported(t, b).Upstreams {
		switch {
		case u.Command != "" && filepath.Base(u.Command) == "gateway":
			entries[u.Name] = map[string]any{"type": "stdio", "command": u.Command, "args": u.Args}
		case slices.ContainsFunc([]string{"http://127.0.0.1:8080/mcp", "http://localhost:8080/mcp"}, func(s string) bool { return s == u.URL }):
			entries[u.Name] = map[string]any{"type": "streamable-http", "url": u.URL}
		case slices.ContainsFunc([]string{"http://127.0.0.1:8080/sse", "http://localhost:8080/sse"}, func(s string) bool { return s == u.URL }):
			entries[u.Name] = map[string]any{"type": "sse", "url": u.URL}
		}
	}
	return entries
}
