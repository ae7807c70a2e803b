package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// The log and the audit say of a refused call which groups and scopes the principal has: without them, a wrong group
// looks like a missing claim or a missing rule. Other calls do not have them.
func TestRefusalsNameGroupsAndScopes(t *testing.T) {
	rules := append([]policy.Rule{{
		Name: "few", Effect: policy.Allow, What: policy.What{Tools: []string{"files__read"}}, Limit: &policy.Limit{Rate: 0.001, Burst: 1},
	}}, byRules...)
	var many, ten []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("%d%s", i, strings.Repeat("x", 300)))
	}
	for _, s := range many[:10] {
		ten = append(ten, s[:256]+"…")
	}
	for _, tt := range []struct {
		name             string
		groups, scopes   []string
		wantGroups, want []string
	}{
		{"both", []string{"guests"}, []string{"read", "write"}, []string{"guests"}, []string{"read", "write"}},
		{"groups", []string{"guests"}, nil, []string{"guests"}, nil},
		{"neither", nil, []string{}, nil, nil},
		{"many", many, many, append(ten, "…"), append(ten, "…")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &fakeAuditor{}
			h := auditedRouter(t, answers(`{"content":[]}`), filesSource(t), &Audit{To: b}, rules...)
			core, logs := observer.New(zap.InfoLevel)
			h.logTo(zap.New(core))
			who := &call.Principal{Subject: "carol", AuthMethod: "jwt", Groups: tt.groups, Scopes: tt.scopes}
			for _, c := range []struct {
				method, params, outcome string
				refusals                []string // the events of lines that refuse
			}{
				{"tools/call", `{"name":"files__read"}`, outcomeOK, nil},
				{"tools/call", `{"name":"files__read"}`, outcomeLimited, []string{auditEnd}},
				{"tools/call", `{"name":"files__remove"}`, outcomeUnconfirmed, []string{auditEnd}},
				{"prompts/get", `{"name":"files__explain"}`, outcomeRefused, []string{auditDecision, auditEnd}},
				{"tools/call", `{"name":"files__gone"}`, outcomeRefused, []string{auditDecision, auditEnd}},
			} {
				down := newCall(c.method, c.params, &answerer{answer: `{"action":"decline"}`})
				down.Principal = who
				down.Client = &call.Client{Key: "c", Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"elicitation":{}}`)}
				_, _ = h.Handle(t.Context(), down) // the outcome is what the test looks at
				var refusals []string
				for _, l := range b.take(t) {
					p := wire.ValueOf(wire.Raw(l)).Get("principal")
					groups, scopes := textsOf(p.Get("groups")), textsOf(p.Get("scopes"))
					if groups == nil && scopes == nil {
						continue
					}
					refusals = append(refusals, wire.ValueOf(wire.Raw(l)).Get("event").Str())
					if diff := cmp.Diff([][]string{tt.wantGroups, tt.want}, [][]string{groups, scopes}); diff != "" {
						t.Errorf("%s: %s", c.outcome, diff)
					}
				}
				want := c.refusals
				if tt.wantGroups == nil && tt.want == nil {
					want = nil
				}
				if diff := cmp.Diff(want, refusals); diff != "" {
					t.Errorf("%s: lines with groups or scopes (-want +got):\n%s", c.outcome, diff)
				}
				line := logs.TakeAll()[0].ContextMap()
				if line["outcome"] != c.outcome {
					t.Fatalf("the line is %v, want the outcome %s", line, c.outcome)
				}
				for name, list := range map[string][]string{"groups": tt.wantGroups, "scopes": tt.want} {
					var want any
					if c.outcome != outcomeOK && list != nil {
						want = fmt.Sprint(list)
					}
					got := line[name]
					if got != nil {
						got = fmt.Sprint(got)
					}
					if got != want {
						t.Errorf("%s: the log has the %s %v, want %v", c.outcome, name, got, want)
					}
				}
			}
		})
	}
}

// textsOf returns the texts of a list, nil for none.
func textsOf(v wire.Value) (list []string) {
	for el := range v.Elements() {
		list = append(list, el.Str())
	}
	return list
}
