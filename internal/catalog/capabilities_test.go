package catalog

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

const allCapabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}`

// declaring returns a source that declares capabilities, "" for one that was never connected.
func declaring(t *testing.T, name, capabilities string) Source {
	s := source(t, name, name)
	if capabilities != "" {
		s.Capabilities, s.Revision = wire.Raw(capabilities), wire.Rev20251125
	}
	return s
}

func TestCapabilities(t *testing.T) {
	const onlyTools = `{"tools":{"listChanged":true},"logging":{}}`
	for _, tt := range []struct {
		name    string
		sources []Source
		want    string
	}{
		{"no upstreams", nil, allCapabilities},
		{"one that only has tools", []Source{declaring(t, "a", `{"tools":{}}`)}, onlyTools},
		{"one of which nothing is known", []Source{declaring(t, "a", "")}, allCapabilities},
		{"capabilities that are no object", []Source{declaring(t, "a", `null`)}, allCapabilities},
		{"one that is down, and was seen before", []Source{down(declaring(t, "a", `{"tools":{}}`))}, onlyTools},
		{"tools and an unknown one", []Source{declaring(t, "a", `{"tools":{}}`), down(declaring(t, "b", ""))}, allCapabilities},
		{"the union", []Source{declaring(t, "a", `{"tools":{}}`), declaring(t, "b", `{"resources":{"subscribe":false}}`)},
			`{"tools":{"listChanged":true},"resources":{"listChanged":true},"logging":{}}`},
		{"subscriptions of one", []Source{declaring(t, "a", `{"resources":{}}`), declaring(t, "b", `{"resources":{"subscribe":true}}`)},
			`{"resources":{"subscribe":true,"listChanged":true},"logging":{}}`},
		{"completions without anything to complete", []Source{declaring(t, "a", `{"tools":{},"completions":{}}`)}, onlyTools},
		{"completions of prompts", []Source{declaring(t, "a", `{"prompts":{},"completions":{}}`)}, `{"prompts":{"listChanged":true},"completions":{},"logging":{}}`},
		{"an extension", []Source{declaring(t, "a", `{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`)},
			strings.Replace(onlyTools, `"logging":{}`, `"logging":{},"extensions":{"io.modelcontextprotocol/ui":{}}`, 1)},
	} {
		if got := string(build(tt.sources...).View(call.Anonymous, nil).Capabilities()); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Callers learn nothing about lists of which policy shows them no item.
func TestCapabilitiesUnderPolicy(t *testing.T) {
	p := policy.MustNew(policy.Options{
		Upstreams: map[string]policy.Upstream{"filtered": {Prompts: policy.Globs{Deny: []string{"*"}}}},
		Rules: []policy.Rule{
			{Name: "ann", Effect: policy.Allow, Who: policy.Who{Subjects: []string{"ann"}}, What: policy.What{Tools: []string{"*"}}},
			{Name: "bob", Effect: policy.Allow, Who: policy.Who{Subjects: []string{"bob"}}},
			{Name: "eve", Effect: policy.Allow, Who: policy.Who{Subjects: []string{"eve"}}, What: policy.What{Upstreams: []string{"small"}}},
		},
	})
	table := Build(Options{Policy: p}, []Source{
		declaring(t, "large", `{"tools":{},"resources":{"subscribe":true}}`),
		declaring(t, "filtered", `{"prompts":{},"completions":{}}`),
		declaring(t, "small", `{"tools":{}}`),
	})
	for subject, want := range map[string]string{
		"ann": `{"tools":{"listChanged":true},"logging":{}}`,
		"bob": `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`,
		"eve": `{"tools":{"listChanged":true},"logging":{}}`,
		"joe": allCapabilities, // as in front of no upstream
	} {
		if got := string(table.View(&call.Principal{Subject: subject}, nil).Capabilities()); got != want {
			t.Errorf("%s: got %s, want %s", subject, got, want)
		}
	}
}
