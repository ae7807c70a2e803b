package config

import (
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// hostKeys are the keys that hosts write and that have no effect here, by pattern, with advice if
// there is any.
var hostKeys = map[string]string{
	"inputs":         "an input is read from the environment variable of its name",
	"globalShortcut": "",
	"preferences":    "",

	"upstreams.*.autoApprove":      "the host decides what it asks its user",
	"upstreams.*.alwaysAllow":      "the host decides what it asks its user",
	"upstreams.*.trust":            "the host decides what it asks its user",
	"upstreams.*.disabledTools":    "to hide tools, use tools.deny",
	"upstreams.*.excludeTools":     "to hide tools, use tools.deny",
	"upstreams.*.enabledTools":     "to publish some tools only, use tools.allow",
	"upstreams.*.includeTools":     "to publish some tools only, use tools.allow",
	"upstreams.*.description":      "",
	"upstreams.*.name":             "the name is the key",
	"upstreams.*.version":          "",
	"upstreams.*.icon":             "",
	"upstreams.*.gallery":          "",
	"upstreams.*.dev":              "",
	"upstreams.*.autoStart":        "",
	"upstreams.*.isActive":         "to leave the upstream out, use disabled",
	"upstreams.*.provider":         "",
	"upstreams.*.authProviderType": "",
	"upstreams.*.oauth":            "",
	"upstreams.*.transportType":    "use transport",
	"upstreams.*.sandbox":          "",
	"upstreams.*.sandboxEnabled":   "",
	"upstreams.*.settings":         "",
	"upstreams.*.source":           "",
	"upstreams.*.watchPaths":       "",
}

// HostKeyHint is advice for a key of a server that hosts write and that has no effect here, empty if
// there is none.
func HostKeyHint(key string) string { return hostKeys["upstreams.*."+key] }

// hostServerKeys are top-level keys of hosts' configurations with servers in a form that only
// package hostimport reads.
var hostServerKeys = []string{"context_servers", "mcp", "mcp_servers", "amp.mcpServers", "mcp.servers"}

// IsServer reports whether a value has the form of a server: a mapping with a command or a url.
func IsServer(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch value := configfile.Resolve(n.Content[i+1]); n.Content[i].Value {
		case "command", "url", "serverUrl", "httpUrl":
			return value.Kind == yaml.ScalarNode || value.Kind == yaml.SequenceNode
		}
	}
	return false
}

// isNumber reports whether a value is a number without quotes.
func isNumber(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float")
}
