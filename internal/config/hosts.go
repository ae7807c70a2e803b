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

// gooseKey is the top-level key of Goose for its servers, see [IsGoose].
const gooseKey = "extensions"

// makeOne is the advice for files of hosts in a form that only package hostimport reads.
const makeOne = "make a gateway.yaml of this file with gateway import"

// editorVariables are the names that editors replace in their files, and package hostimport too. Their other forms, such
// as ${/}, are not names of variables.
var editorVariables = []string{"userHome", "workspaceFolder", "workspaceRoot", "workspaceFolderBasename", "pathSeparator", "extensionInstallFolder", "execPath"}

// IsGoose reports whether a value holds extensions of Goose. Other hosts have other things under this key.
func IsGoose(n *yaml.Node) bool {
	if n == nil || n.Kind != yaml.MappingNode {
		return false
	}
	for i := 1; i < len(n.Content); i += 2 {
		if kind := configfile.Child(configfile.Resolve(n.Content[i]), "type"); kind != nil {
			switch kind.Value {
			case "stdio", "sse", "streamable_http", "builtin", "platform", "frontend", "inline_python":
				return true
			}
		}
	}
	return false
}

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
