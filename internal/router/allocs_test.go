//go:build !race

// Under the race detector sync.Pool forgets at random, so that nothing can be
// said about allocations.

package router

import (
	"context"
	"math"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// TestRefusedCostsWhatAbsentCosts holds names that are refused against names that
// nobody has: the same bytes but for the name, and as many allocations.
func TestRefusedCostsWhatAbsentCosts(t *testing.T) {
	p := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "some", Effect: policy.Allow, What: policy.What{Tools: []string{"db__query"}, Resources: []string{"db+row:1"}}},
		{Name: "tools", Effect: policy.Deny, What: policy.What{Tools: []string{"db__d*"}}},
		{Name: "resources", Effect: policy.Deny, What: policy.What{Resources: []string{"files+*"}}},
	}})
	r, _ := worldRouter(t, p, func(worldItem) bool { return true }, func(string) bool { return true })
	who := &call.Principal{Subject: "ann"}
	for _, tt := range []struct {
		kind            call.Kind
		refused, absent string
	}{
		{call.Tool, "db__drop", "db__droq"},
		{call.Tool, "db__insert", "db__inserx"},
		{call.Prompt, "files__expand", "files__expanx"},
		{call.Resource, "files+file:///etc/passwd", "files+file:///etc/passwx"},
		{call.Resource, "db+row:2", "db+row:9"},
		{call.Resource, "memo:y", "memo:z"},
		{call.Template, "db+row:{id}", "db+row:{ix}"},
	} {
		for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
			cost := func(name string) (string, float64) {
				method, params := useOf(tt.kind, name, "")
				c := &call.Call{ID: "r", Method: method, Params: wire.Raw(params), Principal: who, Back: &recorder{}, Client: &call.Client{Key: "c", Revision: rev}}
				// The least of several runs: pools may be emptied meanwhile.
				least := math.Inf(1)
				for range 5 {
					least = min(least, testing.AllocsPerRun(100, func() {
						if _, err := r.Handle(context.Background(), c); err == nil || err.Error() == "" {
							t.Fatal("the call was answered")
						}
					}))
				}
				return strings.ReplaceAll(respond(r, who, rev, method, params, &recorder{}), name, "NAME"), least
			}
			refused, n := cost(tt.refused)
			absent, m := cost(tt.absent)
			if refused != absent || n != m {
				t.Errorf("%s, %s:\nrefused: %v allocations, %s\nabsent:  %v allocations, %s", tt.kind, rev, n, refused, m, absent)
			}
		}
	}
}

// An audit that is off costs nothing.
func TestNoAuditNoAllocations(t *testing.T) {
	if n := testing.AllocsPerRun(100, auditedCall(t, nil)); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
