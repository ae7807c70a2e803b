package config

import (
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
)

// foreign are keys that hosts write into their configurations and that mean
// nothing here, by pattern, with what to do instead where there is something.
var foreign = map[string]string{
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

// HostKeyHint says what to use in place of a key that hosts write for a server and that means
// nothing here; it is empty if there is no advice.
func HostKeyHint(key string) string { return foreign["upstreams.*."+key] }

// abroad are keys at the top under which hosts have their servers in forms that only
// [Import] reads.
var abroad = []string{"context_servers", "mcp", "mcp_servers", "amp.mcpServers", "mcp.servers"}

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
