package router

import (
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Policy allows a request without arguments if it would allow some arguments. This must not
// apply to a method that is missing from the table.
func TestDecideJudgesUnknownMethodsClosed(t *testing.T) {
	when, faults := policy.NewCondition(`args.path == "/safe"`)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	h := routerWithRules(t, answers(`{}`), filesSource(t), policy.Rule{Name: "safe", Effect: policy.Allow, When: when})
	for method, want := range map[string]policy.Effect{
		wire.MethodToolsCall: policy.Deny,  // with these arguments
		wire.MethodTasksGet:  policy.Allow, // of a call with other arguments
		"tools/destroy":      policy.Deny,
	} {
		c := newCall(method, `{"name":"files__read","arguments":{"path":"/etc"}}`, &recorder{})
		target, ok := h.Routes().view(c.Principal, c.Client).Resolve(call.Tool, "files__read")
		if !ok {
			t.Fatal("the tool is not in the table")
		}
		d, err := h.decide(auditDecision, c, itemOf(&target), target.Policy, nil)
		if err != nil || d.Effect != want {
			t.Errorf("%s: %v, %v; want %v", method, d.Effect, err, want)
		}
	}
}
