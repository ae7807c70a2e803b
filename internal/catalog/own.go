package catalog

import (
	"strings"

	"mcpgateway/internal/call"
)

// ownCapabilities returns what the gateway's own items add to the capabilities.
func (t *Table) ownCapabilities() capability {
	if t.own == nil {
		return 0
	}
	var has capability
	for kind, items := range t.own.source.Items {
		if len(items) > 0 {
			has |= [call.Kinds]capability{call.Tool: hasTools, call.Prompt: hasPrompts, call.Resource: hasResources, call.Template: hasResources}[kind]
		}
	}
	return has
}

// ownsURI reports whether a URI begins like a template of the gateway's own.
func (t *Table) ownsURI(public string) bool {
	if t.own == nil {
		return false
	}
	for _, e := range t.entries[call.Template] {
		if e.part != t.own { // own items come first
			return false
		}
		if literal, _, _ := strings.Cut(e.Native, "{"); literal != "" && strings.HasPrefix(public, literal) {
			return true
		}
	}
	return false
}
