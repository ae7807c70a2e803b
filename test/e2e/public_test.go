package e2e

import (
	"maps"

	"mcpgateway/test/internal/client"
)

// These functions build public names and URIs without the gateway's code, on purpose: the names are promises to users, and a test that used the
// gateway's code would follow any change of it.

func publicName(upstream, native string) string { return upstream + "__" + native }

func publicURI(upstream, native string) string { return upstream + "+" + native }

// publicly translates a step with native names into the same step through the gateway.
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

// uriMark marks the place of a URI prefix in the expected text of an exercise.
const uriMark = "@@"
