package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

func TestConditionFaults(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []Diagnostic
	}{
		{`tool.nmae == "x"`, []Diagnostic{{Line: 1, Col: 5, Msg: "undefined field 'nmae'"}}},
		{`principal.profile == "x"`, []Diagnostic{{Line: 1, Col: 10, Msg: "undefined field 'profile'"}}},
		{"true &&\n  tol.name == 'x'", []Diagnostic{{Line: 2, Col: 3, Msg: "unknown name 'tol' (did you mean 'tool'?)"}}},
		{`tool.name == 1`, []Diagnostic{{Line: 1, Col: 11, Msg: "found no matching overload for '_==_' applied to '(string, int)'"}}},
		{`tool.name`, []Diagnostic{{Line: 1, Col: 1, Msg: "must be true or false, and this is of type string"}}},
		{`args.a &`, []Diagnostic{{Line: 1, Col: 8, Msg: "Syntax error: token recognition error at: '&'"}}},
		{`args.a ==`, []Diagnostic{{Line: 1, Col: 10, Msg: "the condition ends too early: a value or a closing bracket is missing at its end"}}},
		{`(args.a`, []Diagnostic{{Line: 1, Col: 8, Msg: "the condition ends too early: ')' is missing at its end"}}},
		{`args.a ? 1`, []Diagnostic{{Line: 1, Col: 11, Msg: "the condition ends too early: ':' is missing at its end"}}},
		{`args.a == 'abc`, []Diagnostic{{Line: 1, Col: 11, Msg: "the quote is not closed that opens 'abc"}}},
		{`ä == "" || "ä" == tool.name.lower()`, nil},
		{`tool.name.matches("(")`, []Diagnostic{{Line: 1, Col: 19, Msg: "invalid matches argument"}}},
		{`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`, []Diagnostic{{Line: 1, Col: 41, Msg: "comprehension exceeds nesting limit"}}},
		{strings.Repeat(" ", maxCondition+1), []Diagnostic{{Line: 1, Col: 1, Msg: "is longer than 16384 bytes"}}},
	} {
		c, faults := NewCondition(tt.text)
		if c != nil || len(faults) == 0 {
			t.Errorf("%q: no diagnostic", tt.text)
			continue
		}
		if tt.want != nil && faults[0] != tt.want[0] {
			t.Errorf("%q: %s", tt.text, cmp.Diff(tt.want, faults))
		}
	}
}

func TestUses(t *testing.T) {
	for text, want := range map[string]use{
		`true`:                         0,
		`tool.name == ""`:              useTool,
		`has(tool.annotations.x)`:      useTool | useAnnotations,
		`resource.uri == ""`:           useResource,
		`prompt.name == ""`:            usePrompt,
		`has(args.x)`:                  useArgs,
		`principal.subject == ""`:      useSubject,
		`"a" in principal.groups`:      useGroups,
		`principal.claims["a"] == 1`:   0,
		`size(principal.claims) > 1`:   useClaims,
		`request.era == ""`:            useEra,
		`request.method == ""`:         useMethod,
		`request.profile == ""`:        useProfile,
		`dyn(request) == dyn(request)`: useMethod | useEra | useRevision | useProfile,
		`["a"].exists(g, g in principal.scopes && principal.proof == g)`: useScopes | useProof,
		`["a"].all(args, args == principal.issuer)`:                      useArgs | useIssuer,
		`principal.claims.a == 1 && principal.claims[tool.name] == 1`:    useClaims | useTool,
	} {
		if got := when(t, text).uses; got != want {
			t.Errorf("%s: uses %b, want %b", text, got, want)
		}
	}
}

func TestClaimsByName(t *testing.T) {
	c := when(t, `principal.claims.team == "blue" && has(principal.claims.level) && principal.claims["a.b"][0].x == 1`)
	if want := []string{"team", "level", "a.b"}; !cmp.Equal(c.claims, want) || c.uses != 0 {
		t.Errorf("claims %q and uses %b, want %q alone", c.claims, c.uses, want)
	}
	p := MustNew(Options{Rules: []Rule{{Name: "r", Effect: Allow, When: c}}})
	key := func(claims string) string {
		return p.Key(Caller{Principal: &call.Principal{Claims: wire.Raw(claims)}})
	}
	if key(`{"team":"blue","jti":"1","exp":1}`) != key(`{"jti":"2","team":"blue","exp":2}`) {
		t.Error("the rights depend on the token")
	}
	if key(`{"team":"blue"}`) == key(`{"team":"red"}`) || key(`{"team":null}`) == key(`{}`) || key(`{"team":"l","level":""}`) == key(`{"team":"","level":"l"}`) {
		t.Error("different claims have the same key")
	}
}

func TestRemarks(t *testing.T) {
	for _, tt := range []struct {
		text                      string
		tools, resources, prompts bool
		want                      string
	}{
		{`false`, true, true, true, "the rule never matches: the condition is false"},
		{`1 > 2`, true, true, true, "the rule never matches: the condition is false"},
		{`true`, true, true, true, ""},
		{`1 / 0 > 1`, true, true, true, ""},
		{`tool.name == ""`, true, false, false, ""},
		{`tool.name == ""`, true, false, true, "the condition reads tool, and the rule is about other kinds too, for which it cannot be evaluated; name only tools in what"},
		{`has(tool.name) || has(resource.uri)`, true, true, false, ""},
	} {
		got := ""
		for _, f := range Check(tt.text, tt.tools, tt.resources, tt.prompts) {
			if !f.Warning {
				t.Errorf("%s: %s is not a warning", tt.text, f.Msg)
			}
			got = f.Msg
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for args, want := range map[string]outcome{
		`{"n":5}`: yes, `{"n":5.0}`: yes, `{"n":50e-1}`: yes, `{"n":5.5}`: no, `{"n":"5"}`: no, `{"n":9007199254740993}`: no,
		`{"n":1e999}`: failed, `{}`: failed,
	} {
		v := &vars{req: Request{Params: withArgs(args)}}
		if got := when(t, `args.n == 5`).eval(v); got != want {
			t.Errorf("%s: outcome %d, want %d", args, got, want)
		}
	}
	v := &vars{req: Request{Params: withArgs(`{"n":9007199254740993,"s":["a",{"b":null}]}`)}}
	if got := when(t, `args.n == 9007199254740993 && args.n % 2 == 1 && args.s[1].b == null && size(args.s) == 2`).eval(v); got != yes {
		t.Errorf("outcome %d: %v", got, v.failure)
	}
}

func TestCostIsBounded(t *testing.T) {
	v := &vars{req: Request{Params: withArgs(`{"l":[` + strings.Repeat("1,", 5000) + `1]}`)}}
	c := when(t, `args.l.all(a, args.l.all(b, a == b))`)
	if got := c.eval(v); got != failed || !strings.Contains(v.failure.Error(), "cost limit") {
		t.Errorf("outcome %d, %v; want a failure because of the cost", got, v.failure)
	}
}
