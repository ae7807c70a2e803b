package profile

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
)

func TestUpstreams(t *testing.T) {
	configured := []Upstream{
		{Name: "a", Tags: []string{"x"}}, {Name: "b", Tools: map[string][]string{"t": {"x"}, "u": {"y"}}}, {Name: "c", Tags: []string{"y"}},
	}
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"all", Options{}, "abc"},
		{"names", Options{Upstreams: []string{"c", "a"}}, "ac"},
		{"a tag, also of an item", Options{Tags: []string{"x"}}, "ab"},
		{"both have to hold", Options{Upstreams: []string{"b", "c"}, Tags: []string{"x", "z"}}, "b"},
		{"none", Options{Tags: []string{"z"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Name, tt.o.Configured = "p", configured
			p, err := New(tt.o)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, u := range configured {
				if p.HasUpstream(u.Name) {
					got += u.Name
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestTaggedItems checks that the tag of an item selects this item alone, listed or not.
func TestTaggedItems(t *testing.T) {
	p, err := New(Options{Name: "p", Tags: []string{"x"}, Configured: []Upstream{{Name: "b", Tools: map[string][]string{"t": {"x"}, "u": {"y"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	rights := p.Policy(policy.MustNew(policy.Options{Default: policy.Allow})).Rights(policy.Caller{Principal: call.Anonymous})
	for _, tt := range []struct {
		kind   call.Kind
		native string
		want   string
	}{
		{call.Tool, "t", policy.RuleDefault}, {call.Tool, "u", policy.RuleProfileAllow}, {call.Prompt, "t", policy.RuleProfileAllow},
		{call.Resource, "file:///t", policy.RuleProfileAllow}, {call.Template, "file:///{t}", policy.RuleProfileAllow},
	} {
		it := policy.Item{Kind: tt.kind, Upstream: "b", Public: "b__" + tt.native, Native: tt.native}
		d := rights.ForItem(it).Listed()
		if allowed := tt.want == policy.RuleDefault; d.Rule != tt.want || d.Allowed() != allowed || p.Selects(it) != allowed {
			t.Errorf("%s %s: got %+v and selected %t, want %s", tt.kind, tt.native, d, p.Selects(it), tt.want)
		}
	}
}
