package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// quickWords are what random conditions are made of.
var (
	quickMembers = []string{
		"args.a", "args.b", `args["c d"]`, "args.o.a", "args.o.o.b", "args.l", "args.a.a", "tool.annotations.readOnlyHint", "tool.annotations.x.a",
		"resource.annotations.priority", "principal.claims.team", `principal.claims["level"]`, "principal.claims.o.a",
	}
	quickFields = []string{
		"tool.name", "tool.native", "tool.upstream", "resource.uri", "resource.native", "resource.mimeType", "prompt.name", "prompt.upstream",
		"principal.subject", "principal.issuer", "principal.proof", "request.method", "request.era", "request.revision", "request.profile",
	}
	quickConstants = []string{`"a"`, `"é\n"`, `""`, `"files__read"`, `"tools/call"`, "0", "1", "-1", "1000000", "true", "false", "null", "9223372036854775807"}
	quickValues    = []string{
		`"a"`, `"files__read"`, `"\u0061"`, `"\u00e9\n"`, `"a\ud83d"`, `""`, "0", "-0", "1", "1.0", "1e0", "1.5", "1e-999", "1e400", "-1", "1e6",
		"9223372036854775807", "9223372036854775808", "9.3e18", "true", "false", "null", "[]", `["a",1]`, `[1e400]`, "{}", `{"a":"a"}`, `{"o":{"b":1},"a":true}`,
	}
)

func one(words []string) string { return words[rand.IntN(len(words))] }

// randomCondition returns a condition, not always a valid one.
func randomCondition(depth int) string {
	operand := func() string {
		switch rand.IntN(8) {
		case 0, 1, 2:
			return one(quickMembers)
		case 3, 4:
			return one(quickFields)
		case 5:
			return "size(" + one([]string{one(quickMembers), one(quickFields), "principal.groups", "principal.claims"}) + ")"
		default:
			return one(quickConstants)
		}
	}
	if depth > 0 && rand.IntN(3) > 0 {
		switch rand.IntN(5) {
		case 0:
			return "!(" + randomCondition(depth-1) + ")"
		case 1, 2:
			return "(" + randomCondition(depth-1) + " && " + randomCondition(depth-1) + ")"
		default:
			return "(" + randomCondition(depth-1) + " || " + randomCondition(depth-1) + ")"
		}
	}
	switch rand.IntN(7) {
	case 0:
		return operand()
	case 1:
		return "has(" + strings.Replace(one(quickMembers), `["c d"]`, ".cd", 1) + ")"
	case 2:
		return operand() + "." + one([]string{"startsWith", "endsWith", "contains"}) + "(" + one(quickConstants) + ")"
	case 3:
		return operand() + " in " + one([]string{`["a", "é\n"]`, `["files__read"]`, "principal.groups", "principal.scopes", "args.l", "args.o"})
	default:
		return operand() + " " + one([]string{"==", "!=", "<", "<=", ">", ">="}) + " " + operand()
	}
}

func randomObject(names ...string) wire.Raw {
	var members []string
	for _, name := range names {
		if rand.IntN(3) > 0 {
			members = append(members, fmt.Sprintf("%q:%s", name, one(quickValues)))
		}
	}
	return wire.Raw("{" + strings.Join(members, ",") + "}")
}

func randomVars() vars {
	v := vars{
		caller: &Caller{Principal: &call.Principal{Subject: one([]string{"a", ""}), Issuer: one([]string{"a", "b"}), AuthMethod: "a"}},
		item:   &Item{Kind: call.Kind(rand.IntN(call.Kinds)), Native: one([]string{"a", "b"}), Upstream: "a"},
		req:    Request{Method: "tools/call"}, public: one([]string{"a", "files__read", "\u00e9\n"}), open: open(rand.IntN(8)),
	}
	if rand.IntN(2) > 0 {
		v.caller.Revision = wire.Rev20251125
	}
	if rand.IntN(2) > 0 {
		v.caller.Principal.Groups, v.caller.Principal.Scopes = []string{"a", "x"}, []string{"files__read"}
	}
	v.caller.Principal.Claims = randomObject("team", "level", "o")
	if rand.IntN(4) > 0 {
		v.about = wire.Raw(`{"mimeType":` + one(quickValues) + `,"annotations":` + one([]string{"7", "null", string(randomObject("readOnlyHint", "x", "priority"))}) + "}")
	}
	switch rand.IntN(8) {
	case 0:
	case 1:
		v.req.Params = wire.Raw(`{"arguments":` + one(quickValues) + "}")
	default:
		v.req.Params = wire.Raw(`{"arguments":` + string(randomObject("a", "b", "c d", "cd", "o", "l")) + "}")
	}
	return v
}

// The quick form of a condition has the outcome of the library.
func TestQuickConditionsHaveTheOutcomeOfTheLibrary(t *testing.T) {
	quicks, outcomes := 0, map[outcome]int{}
	for range 3000 {
		text := randomCondition(3)
		c, _ := NewCondition(text)
		if c == nil || c.quick == nil {
			continue
		}
		quicks++
		for range 20 {
			v := randomVars()
			outcomes[compareQuick(t, c, v)]++
		}
	}
	if quicks < 500 || len(outcomes) != 4 {
		t.Errorf("%d quick conditions with the outcomes %v", quicks, outcomes)
	}
}

func compareQuick(t *testing.T, c *Condition, v vars) outcome {
	t.Helper()
	in := inputs{vars: v}
	got, want := c.quick.eval(&in), c.eval(&v)
	if again := c.quick.eval(&in); got != want || again != want {
		t.Errorf("%s: quick %d, then %d; the library %d (%v)\nparams %s, item %v %s, claims %s, groups %q, open %b",
			c.text, got, again, want, v.failure, v.req.Params, v.item.Kind, v.about, v.caller.Principal.Claims, v.caller.Principal.Groups, v.open)
	}
	return got
}

func FuzzQuick(f *testing.F) {
	for range 50 {
		v := randomVars()
		f.Add(randomCondition(3), string(v.req.Params), string(v.about), string(v.caller.Principal.Claims), uint8(v.item.Kind), uint8(v.open))
	}
	f.Fuzz(func(t *testing.T, text, params, about, claims string, kind, unknown uint8) {
		for _, doc := range []string{params, about, claims} {
			if len(doc) > maxQuick || doc != "" && wire.Check([]byte(doc), wire.Limits{Depth: 100}, wire.Strict) != nil {
				return
			}
		}
		c, _ := NewCondition(text)
		if c == nil || c.quick == nil {
			return
		}
		v := randomVars()
		v.req.Params, v.about, v.caller.Principal.Claims = wire.Raw(params), wire.Raw(about), wire.Raw(claims)
		v.item.Kind, v.open = call.Kind(kind%call.Kinds), open(unknown%8)
		compareQuick(t, c, v)
	})
}

// Conditions that most rules have are quick.
func TestCommonConditionsAreQuick(t *testing.T) {
	for text, want := range map[string]bool{
		`args.nonce == "n001" || args.nonce.startsWith("x001")`:                                 true,
		`tool.annotations.readOnlyHint && (!has(args.limit) || args.limit <= 1000)`:             true,
		`size(args.query) < 1000 && "analyst" in principal.groups`:                              true,
		`args.owner == principal.subject && principal.claims.team in ["blue", "red"]`:           true,
		`!args.path.contains("..") && request.era == "modern" && resource.mimeType != "a/b"`:    true,
		`args.a.contains("` + strings.Repeat("x", 2000) + `") && args.b.contains("0123456789")`: false, // it may exceed the limit on the cost
		`args.list.exists(e, e == "a")`:                                                         false,
	} {
		if got := when(t, text).quick != nil; got != want {
			t.Errorf("%s: quick %v, want %v", text, got, want)
		}
	}
}

// Values that are too large for the bounds of quick conditions are left to the library, which refuses
// to read too much.
func TestLargeInputsAreLeftToTheLibrary(t *testing.T) {
	const text = `args.a.contains("0123456789012345678901234567890123456789")`
	for n, want := range map[int]outcome{10: no, maxQuick: no, 1 << 20: failed} {
		e := evaluationOf(randomVars())
		e.vars.open, e.vars.req = 0, Request{Params: wire.Raw(`{"arguments":{"a":"` + strings.Repeat("x", n) + `"}}`)}
		if got := e.eval(when(t, text)); got != want {
			t.Errorf("%d bytes: %d, want %d", n, got, want)
		}
	}
}

// rulesWithConditions returns n rules whose conditions read arguments. The last one matches.
func rulesWithConditions(t testing.TB, n int) []Rule {
	var rules []Rule
	for i := range n - 1 {
		c, _ := NewCondition(fmt.Sprintf(`args.nonce == "n%03d" || args.nonce.startsWith("x%03d")`, i, i))
		rules = append(rules, Rule{Name: fmt.Sprint(i), Effect: Deny, What: What{Tools: []string{"files__*"}}, When: c})
	}
	c, _ := NewCondition(`size(args.nonce) > 3 && "analyst" in principal.groups`)
	return append(rules, Rule{Name: "last", Effect: Allow, When: c})
}

func decideByConditions(t testing.TB) func() Decision {
	p := MustNew(Options{Rules: rulesWithConditions(t, 200)})
	j := p.Rights(Caller{Principal: &call.Principal{Groups: []string{"analyst"}}}).ForItem(Item{Kind: call.Tool, Public: "files__read", Native: "read"})
	q := Request{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"files__read","arguments":{"nonce":"00000700000000000001"}}`)}
	return func() Decision { return j.Decide(q) }
}

// decideByPresence decides by ten rules that read a member that is absent, and one without a
// condition.
func decideByPresence(t testing.TB) func() Decision {
	var rules []Rule
	for i := range 10 {
		rules = append(rules, Rule{Name: fmt.Sprint(i), Effect: Deny, When: when(t, fmt.Sprintf(`has(args.path) && args.path == "/%d"`, i))})
	}
	p := MustNew(Options{Rules: append(rules, Rule{Name: "last", Effect: Allow})})
	j := p.Rights(Caller{Principal: &call.Principal{}}).ForItem(Item{Kind: call.Tool, Public: "files__read", Native: "read"})
	q := Request{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"files__read","arguments":{"nonce":"00000700000000000001"}}`)}
	return func() Decision { return j.Decide(q) }
}

// A decision by quick conditions allocates nothing.
func TestQuickDecisionsAllocateNothing(t *testing.T) {
	for _, decide := range []func() Decision{decideByConditions(t), decideByPresence(t)} {
		if d := decide(); d.Rule != "last" || !d.Allowed() {
			t.Errorf("decided by %s: %v", d.Rule, d.Effect)
		}
		if n := testing.AllocsPerRun(100, func() { decide() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkDecideByConditions(b *testing.B) {
	for name, decide := range map[string]func() Decision{"values": decideByConditions(b), "presence": decideByPresence(b)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
		})
	}
}
