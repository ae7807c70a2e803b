package docs

import (
	"regexp"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// TestPolicyConditions compiles the conditions in the tables of docs/policy.md.
func TestPolicyConditions(t *testing.T) {
	row := regexp.MustCompile("^\\| `(.+?)` \\|")
	inTable, n := false, 0
	for _, l := range documents(t)["docs/policy.md"].prose {
		if strings.HasPrefix(l.text, "| condition |") {
			inTable = true
		}
		m := row.FindStringSubmatch(l.text)
		if !strings.HasPrefix(l.text, "|") {
			inTable = false
		}
		if inTable && m != nil {
			n++
			t.Run(l.place, func(t *testing.T) { condition(t, block{text: strings.ReplaceAll(m[1], `\|`, "|")}) })
		}
	}
	if n < 5 {
		t.Errorf("found only %d conditions", n)
	}
}

// TestPolicyConditionsDecide decides calls by the conditions in docs/policy.md about paths and addresses,
// which readers copy: none may be passed by a value that only begins or ends like a good one.
func TestPolicyConditionsDecide(t *testing.T) {
	row := regexp.MustCompile("^\\| `(.*args\\.(path|to)\\b.*?)` \\|")
	cases := map[string]map[string]bool{
		"path": {
			`"/srv/alice/x"`: true, `"/srv/alice/a/b.txt"`: true,
			`"/srv/alice/../bob/x"`: false, `"/srv/alice/.."`: false, `"/srv/bob/x"`: false, `"/srv/alice"`: false, `"/srv/alicex/y"`: false, `["/srv/alice/x"]`: false,
		},
		"to": {
			`["a@example.com"]`: true, `["a@example.com", "b.c+d@example.com"]`: true,
			`["a@example.com", "eve@evil.test"]`: false, `["eve@evil.test, a@example.com"]`: false, `["a@examplexcom"]`: false, `["a@example.com\nBcc: eve@evil.test"]`: false,
			`["eve@evil.test\na@example.com"]`: false, `["\"eve@evil.test\"@example.com"]`: false, `"a@example.com"`: false,
		},
	}
	for _, l := range documents(t)["docs/policy.md"].prose {
		m := row.FindStringSubmatch(l.text)
		if m == nil {
			continue
		}
		condition, wrong := policy.NewCondition(strings.ReplaceAll(m[1], `\|`, "|"))
		if wrong != nil {
			t.Fatalf("%s: %v", l.place, wrong)
		}
		rights := policy.MustNew(policy.Options{Rules: []policy.Rule{{Name: "r", Effect: policy.Allow, When: condition}}})
		decides := func(subject, value string) bool {
			item := policy.Item{Kind: call.Tool, Upstream: "u", Public: "u__t", Native: "t", Raw: wire.Raw(`{"name":"u__t"}`)}
			return rights.Rights(policy.Caller{Principal: &call.Principal{Subject: subject}, Revision: wire.Rev20251125}).ForItem(item).
				Decide(policy.Request{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"u__t","arguments":{"` + m[2] + `":` + value + `}}`)}).Allowed()
		}
		for value, want := range cases[m[2]] {
			if got := decides("alice", value); got != want {
				t.Errorf("%s: with %s %s the condition allows: %v", l.place, m[2], value, got)
			}
		}
		if m[2] == "path" && decides("", `"/srv//bob/x"`) {
			t.Errorf("%s: without a subject the condition allows the folder of another", l.place)
		}
		delete(cases, m[2])
	}
	if len(cases) > 0 {
		t.Errorf("docs/policy.md has no condition for %v", cases)
	}
}
