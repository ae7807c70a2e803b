package downlevel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestItem(t *testing.T) {
	tests := []struct {
		name   string
		in     string
		since  wire.Revision // the first revision that knows the item; older ones get want
		want   string
		counts Counts
	}{
		{
			name: "an output schema of an array", since: wire.Rev20260728, counts: Counts{OutputSchema: 1},
			in:   `{ "name":"a", "outputSchema" : {"type":"array","properties":{"x":true}}, "inputSchema":{"type":"object"},"x":1e2}`,
			want: `{ "name":"a", "inputSchema":{"type":"object"},"x":1e2}`,
		},
		{
			name: "an output schema without a type", since: wire.Rev20260728, counts: Counts{OutputSchema: 1},
			in: `{"outputSchema":{"anyOf":[{"type":"object"}]},"name":"a"}`, want: `{"name":"a"}`,
		},
		{
			name: "an output schema of several types", since: wire.Rev20260728, counts: Counts{OutputSchema: 1},
			in: `{"name":"a","outputSchema":{"type":["object"]}}`, want: `{"name":"a"}`,
		},
		{
			name: "an output schema that is true", since: wire.Rev20260728, counts: Counts{OutputSchema: 1},
			in: `{"name":"a","output\u0053chema":true}`, want: `{"name":"a"}`,
		},
		{
			name: "types and output schemas that stand twice", since: wire.Rev20260728, counts: Counts{OutputSchema: 1},
			in:   `{"outputSchema":{"type":"object"},"outputSchema":{"type":"object","type":"array"},"name":"a"}`,
			want: `{"name":"a"}`,
		},
		{
			name: "properties with a schema that is true or false", since: wire.Rev20260728, counts: Counts{BooleanSchema: 3},
			in: `{"inputSchema":{"type":"object","properties":{"a":true,"b":{"properties":{"c":true}}, "d" : false},"additionalProperties":false},` +
				`"name":"a","outputSchema":{"properties":{"a":true},"type":"object"}}`,
			want: `{"inputSchema":{"type":"object","properties":{"a":{},"b":{"properties":{"c":true}}, "d" : {"not":{}}},"additionalProperties":false},` +
				`"name":"a","outputSchema":{"properties":{"a":{}},"type":"object"}}`,
		},
		{
			name: "both kinds of schemas", since: wire.Rev20260728, counts: Counts{OutputSchema: 1, BooleanSchema: 1},
			in:   `{"inputSchema":{"type":"object","properties":{"a":true}},"outputSchema":{}}`,
			want: `{"inputSchema":{"type":"object","properties":{"a":{}}}}`,
		},
		{
			name: "tasks alone", since: wire.Rev20251125, counts: Counts{TaskRequired: 1},
			in:   `{"name":"a","execution":{"x":1.0,"taskSupport":"required"},"inputSchema":{"type":"object"}}`,
			want: `{"name":"a","execution":{"x":1.0},"inputSchema":{"type":"object"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for rev, older := range before(tt.since) {
				want, counts := tt.in, Counts{}
				if older {
					want, counts = tt.want, tt.counts
				}
				got, counted := Item(ItemClassOf(rev), call.Tool, wire.Raw(tt.in))
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", rev, diff)
				}
				if counted != counts {
					t.Errorf("%s: counted %v, want %v", rev, counted, counts)
				}
			}
		})
	}
}

// TestItemsUntouched checks that items without newer parts are the same slice.
func TestItemsUntouched(t *testing.T) {
	tests := []struct {
		name string
		kind call.Kind
		in   string
	}{
		{"what clients overlook", call.Tool, `{"name":"a","title":"A","icons":[{"src":"data:,"}],"annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"a":{}}},` +
			`"outputSchema":{"$schema":"x","type":"object","properties":{}},"execution":{"taskSupport":"optional"},"_meta":{"outputSchema":true,"execution":{"taskSupport":"required"}},"x":true}`},
		{"properties that are no schemas", call.Tool, `{"inputSchema":{"type":"object","properties":{"a":null,"b":1}},"outputSchema":{"type":"object","properties":[true]}}`},
		{"a resource", call.Resource, `{"uri":"a:b","name":"n","outputSchema":true,"execution":{"taskSupport":"required"}}`},
		{"a template", call.Template, `{"uriTemplate":"a:{b}","name":"n","inputSchema":{"properties":{"a":true}}}`},
		{"a prompt", call.Prompt, `{"name":"n","title":"N","arguments":[{"name":"a","title":"A"}],"outputSchema":[]}`},
	}
	for _, tt := range tests {
		for _, rev := range revisions {
			in := wire.Raw(tt.in)
			got, counts := Item(ItemClassOf(rev), tt.kind, in)
			if &got[0] != &in[0] || len(got) != len(in) || counts != (Counts{}) {
				t.Errorf("%s, %s: %s, counted %v", tt.name, rev, got, counts)
			}
		}
	}
}

// TestSchemaAndContentGoTogether checks that for every schema and result of a tool,
// outputSchema and structuredContent are either both removed or both kept.
func TestSchemaAndContentGoTogether(t *testing.T) {
	for schema, content := range map[string]string{
		`{"type":"object"}`:                     `{"a":1}`,
		`{"type":"array"}`:                      `[1]`,
		`{"type":"string"}`:                     `"a"`,
		`{"type":"number"}`:                     `1e2`,
		`{"type":"boolean"}`:                    `false`,
		`{"type":"null"}`:                       `null`,
		`{"type":["array","null"],"items":{}}`:  `null`,
		`{"enum":[true]}`:                       `true`,
		`{"type":"array","type":"array","a":1}`: `[]`,
	} {
		for _, rev := range revisions {
			item, _ := Item(ItemClassOf(rev), call.Tool, wire.Raw(`{"outputSchema":`+schema+`}`))
			result, _ := Result(rev, wire.MethodToolsCall, wire.ValueOf(wire.Raw(`{"content":[],"structuredContent":`+content+`}`)))
			shown, sent := wire.ValueOf(item).Get("outputSchema").Exists(), wire.ValueOf(result).Get("structuredContent").Exists()
			if shown != sent {
				t.Errorf("%s: schema %s is shown: %v, content %s is sent: %v", rev, schema, shown, content, sent)
			}
		}
	}
}

func TestItemClasses(t *testing.T) {
	for rev, want := range map[wire.Revision]ItemClass{
		"2027-01-01": ItemsAsListed, wire.Rev20260728: ItemsAsListed, wire.Rev20251125: ItemsWithTasks,
		wire.Rev20250618: ItemsPlain, wire.Rev20250326: ItemsPlain, wire.Rev20241105: ItemsPlain, "": ItemsPlain,
	} {
		if got := ItemClassOf(rev); got != want || got >= ItemClasses {
			t.Errorf("%q: class %d, want %d", rev, got, want)
		}
	}
}
