package e2e

import (
	"maps"

	"mcpgateway/test/internal/client"
)

// Names and URIs as the gateway's clients see them, written down here a second time on purpose: these are promises to users, and a test that asked
// the gateway's own code would follow any change to it.

func publicName(upstream, native string) string { return upstream + "__" + native }

func publicURI(upstream, native string) string { return upstream + "+" + native }

// publicly turns a step in a server's own names into the step that means the same through the gateway.
func publicly(upstream string, step client.Step) client.Step {
	step.Params = maps.Clone(step.Params)
	rename(upstream, step.Params)
	if ref, ok := step.Params["ref"].(map[string]any); ok {
		ref = maps.Clone(ref)
		rename(upstream, ref)
		step.Params["ref"] = ref
	}
	return step
}

func rename(upstream string, members map[string]any) {
	if name, ok := members["name"].(string); ok {
		members["name"] = publicName(upstream, name)
	}
	if uri, ok := members["uri"].(string); ok {
		members["uri"] = publicURI(upstream, uri)
	}
}

// uriMark stands before the URIs in the wanted text of an exercise, for whatever the gateway puts there.
const uriMark = "@@"
