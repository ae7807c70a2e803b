package catalog

import (
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// failing marks the tools of a source as a list that could not be gathered.
func failing(s Source) Source {
	s.Failed[call.Tool] = &Down{Since: since, Reason: "tools/list: no answer within 1s"}
	return s
}

func TestListThatFails(t *testing.T) {
	const named = `"mcpgateway/unavailable":[{"upstream":"a","since":"2026-07-28T12:00:00Z","reason":"tools/list: no answer within 1s"}]`
	good := source(t, "b", "b", tool("t"))
	for _, tt := range []struct {
		name    string
		sources []Source
		want    []string // parts of the page, or of the error
	}{
		{"with another upstream", []Source{failing(source(t, "a", "a", prompt("p"))), good}, []string{named, `"b__t"`, `"ttlMs":0`}},
		{"its last items stay", []Source{failing(source(t, "a", "a", tool("old"))), good}, []string{named, `"a__old"`, `"b__t"`}},
		{"alone, its last items stay", []Source{failing(source(t, "a", "a", tool("old")))}, []string{named, `"a__old"`}},
		{"alone", []Source{failing(source(t, "a", "a", prompt("p")))}, []string{"-32603", "the upstream a is unavailable: tools/list: no answer within 1s"}},
		{"beside one that is down", []Source{failing(source(t, "a", "a")), down(source(t, "b", "b", tool("t")))}, []string{"-32603", "a (tools/list: no answer within 1s), b (connection refused)"}},
		{"beside an empty one", []Source{failing(source(t, "a", "a")), source(t, "b", "b")}, []string{named, `"tools":[]`}},
	} {
		v := build(tt.sources...).View(call.Anonymous, nil)
		page, _, err := v.Page(call.Tool, wire.Rev20260728, "", since)
		got := string(page.Raw)
		if err != nil {
			got = string(err.Append(nil))
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", tt.name, got, want)
			}
		}
		if other, _, err := v.Page(call.Prompt, wire.Rev20260728, "", since); err == nil && strings.Contains(string(other.Raw), `"a","since"`) {
			t.Errorf("%s: the list of prompts names the upstream: %s", tt.name, other.Raw)
		}
	}
}

// A name may belong to an upstream whose list fails, unless its items are known.
func TestNamesOfAListThatFails(t *testing.T) {
	v := build(failing(source(t, "a", "a", prompt("p"))), failing(source(t, "b", "b", tool("old")))).View(call.Anonymous, nil)
	for _, tt := range []struct {
		kind   call.Kind
		public string
		want   string
	}{{call.Tool, "a__x", "a"}, {call.Tool, "b__x", ""}, {call.Prompt, "a__x", ""}, {call.Tool, "x", ""}} {
		got := ""
		for _, u := range v.UnavailableFor(tt.kind, tt.public) {
			got += u.Upstream
		}
		if got != tt.want {
			t.Errorf("%s %s may belong to %q, want %q", tt.kind, tt.public, got, tt.want)
		}
	}
}

// Callers learn of a failing list only if they may see its items.
func TestListThatFailsIsHidden(t *testing.T) {
	allow := func(tools ...string) *policy.Policy {
		return policy.MustNew(policy.Options{Rules: []policy.Rule{{Name: "r", Effect: policy.Allow, What: policy.What{Tools: tools}}}})
	}
	sources := []Source{failing(source(t, "a", "a", prompt("p"))), source(t, "b", "b", tool("t"))}
	for rule, want := range map[string]bool{"a__*": true, "b__*": false} {
		page, _, err := Build(Options{Policy: allow(rule, "b__t")}, sources).View(call.Anonymous, nil).Page(call.Tool, wire.Rev20251125, "", since.Add(time.Minute))
		if err != nil || strings.Contains(string(page.Raw), MetaUnavailable) != want {
			t.Errorf("rule %s: %s, %v, want the upstream named: %v", rule, page.Raw, err, want)
		}
	}
}
