package conform

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// TestLegal checks that valid results of every revision have no violations.
func TestLegal(t *testing.T) {
	tests := []struct {
		name string
		rev  wire.Revision
		kind call.Kind
		item string
	}{
		{"keys of _meta before they had a form", wire.Rev20241105, call.Tool, `{"name":"a","inputSchema":{"type":"object"},"_meta":{"a key":1,"-x":2}}`},
		{"the same", wire.Rev20250326, call.Tool, `{"name":"a","inputSchema":{"type":"object"},"_meta":{"1.example/y":3}}`},
		{"names of tools before they had a form", wire.Rev20250618, call.Tool, `{"name":"two words","inputSchema":{"type":"object"}}`},
		{
			"items as a list, of a schema that does not say its dialect", wire.Rev20250618, call.Tool,
			`{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"at":{"type":"array","items":[{"type":"number"},{"type":"number"}]}}}}`,
		},
	}
	for _, tt := range tests {
		for _, mode := range []Mode{Warn, Repair, Strict} {
			l := ItemChecker{Mode: mode, Revision: tt.rev}
			if out := l.Check(tt.kind, wire.Raw(tt.item)); out.Unusable != "" || len(out.Violations) > 0 || string(out.Item) != tt.item {
				t.Errorf("%s, mode %d: left out for %q, findings %v, %s", tt.name, mode, out.Unusable, out.Violations, out.Item)
			}
		}
	}
}

// TestFaultsThatLeaveNothingOut checks that repaired and tolerable violations leave no
// item out of a list.
func TestFaultsThatLeaveNothingOut(t *testing.T) {
	tests := []struct {
		name  string
		mode  Mode
		kind  call.Kind
		item  string
		want  string
		fault Kind
	}{
		{"a size that tells nothing", Warn, call.Resource, `{"uri":"a:b","name":"b","size":-1}`, `{"uri":"a:b","name":"b","size":-1}`, InvalidValue},
		{"the same, repaired", Repair, call.Resource, `{"uri":"a:b","name":"b","size":-1}`, `{"uri":"a:b","name":"b"}`, InvalidValue},
		{"an icon without its source", Repair, call.Resource, `{"uri":"a:b","name":"b","icons":[{},{"src":"data:,"}]}`, `{"uri":"a:b","name":"b","icons":[{"src":"data:,"}]}`, Missing},
		{"a name that should be another", Strict, call.Tool, `{"name":"two words","inputSchema":{"type":"object"}}`, `{"name":"two words","inputSchema":{"type":"object"}}`, InvalidName},
	}
	for _, tt := range tests {
		l := ItemChecker{Mode: tt.mode, Revision: wire.Rev20251125}
		out := l.Check(tt.kind, wire.Raw(tt.item))
		if out.Unusable != "" || string(out.Item) != tt.want {
			t.Errorf("%s: left out for %q, %s", tt.name, out.Unusable, out.Item)
		}
		if len(out.Violations) != 1 || out.Violations[0].Kind != tt.fault || out.Violations[0].Repaired != (tt.mode == Repair) {
			t.Errorf("%s: findings %v", tt.name, out.Violations)
		}
	}
}

// TestMembersOfADraft checks that members of a draft in contents do not refuse a result.
func TestMembersOfADraft(t *testing.T) {
	const result = `{"contents":[{"uri":"a:b","text":"x","size":"1 KB","icons":"b.png","annotations":{"priority":"high"}}]}`
	for mode, want := range map[Mode]string{
		Warn: result, Strict: result, Repair: `{"contents":[{"uri":"a:b","text":"x","annotations":{}}]}`,
	} {
		v := ResultChecker{Mode: mode, Revision: wire.Rev20251125, Method: wire.MethodResourcesRead}.Check(wire.Raw(result))
		if v.Refused || string(v.Result) != want || len(v.Violations) != 3 {
			t.Errorf("mode %d: refused %v, %s, %v", mode, v.Refused, v.Result, v.Violations)
		}
	}
}
