package call

import (
	"testing"

	"mcpgateway/internal/wire"
)

// Dashboards and logs rely on these words.
func TestKindWords(t *testing.T) {
	want := [Kinds][2]string{
		Tool:     {"tool", "tools"},
		Resource: {"resource", "resources"},
		Template: {"template", "templates"},
		Prompt:   {"prompt", "prompts"},
	}
	for k, words := range want {
		if k := Kind(k); k.String() != words[0] || k.Plural() != words[1] {
			t.Errorf("kind %d is %q, %q; want %q", k, k.String(), k.Plural(), words)
		}
	}
}

func TestKindMethod(t *testing.T) {
	for k, want := range [Kinds]string{Tool: "tools/call", Resource: "resources/read", Template: "resources/read", Prompt: "prompts/get"} {
		if got := Kind(k).Method(); got != want {
			t.Errorf("%v is used by %q, want %q", Kind(k), got, want)
		}
	}
	for item, want := range map[wire.Item]Kind{
		wire.ItemTool: Tool, wire.ItemResource: Resource, wire.ItemTemplate: Template, wire.ItemPrompt: Prompt,
	} {
		if got := KindOf(item); got != want {
			t.Errorf("item %d is of kind %v, want %v", item, got, want)
		}
	}
}
