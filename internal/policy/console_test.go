package policy

import (
	"testing"

	"mcpgateway/internal/call"
)

// Only rules about the console open it, a rule that denies wins, and such rules say nothing about items.
func TestConsole(t *testing.T) {
	admin := What{Admin: true}
	ops, eve := &call.Principal{Subject: "ann", Groups: []string{"ops"}}, &call.Principal{Subject: "eve", Groups: []string{"ops"}}
	p := MustNew(Options{Default: Allow, Rules: []Rule{
		{Name: "everything", Effect: Allow},
		{Name: "operators", Effect: Allow, Who: Who{Groups: []string{"ops"}}, What: admin, File: "g.yaml", Line: 7},
		{Name: "not-eve", Effect: Deny, Who: Who{Subjects: []string{"eve"}}, What: admin},
	}})
	for _, c := range []struct {
		who     *call.Principal
		allowed bool
		rule    string
	}{
		{ops, true, "operators"}, {eve, false, "not-eve"}, {&call.Principal{Subject: "bob"}, false, RuleDefault}, {call.Anonymous, false, RuleDefault},
	} {
		e := p.Console(c.who)
		if e.Decision.Allowed() != c.allowed || e.Decision.Rule != c.rule || len(e.Steps) != 3 {
			t.Errorf("%s: %+v", c.who.Subject, e)
		}
	}
	if e := MustNew(Options{Default: Allow}).Console(ops); e.Decision.Allowed() {
		t.Error("the default opens the console")
	}

	// As if the rules about the console were not there, for items.
	closed := MustNew(Options{Default: Allow, Rules: []Rule{{Name: "console", Effect: Deny, What: admin}}})
	item := Item{Kind: call.Tool, Upstream: "u", Public: "u__t", Native: "t"}
	if e := closed.Explain(Caller{Principal: ops}, item, Request{}); !e.Decision.Allowed() || len(e.Steps) != 1 {
		t.Errorf("a rule about the console decides about an item: %+v", e)
	}
	if closed.TellsCallersApart() {
		t.Error("a rule about the console tells the callers of items apart")
	}
}
