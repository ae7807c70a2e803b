package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// triageFile defines a tool of several calls.
const triageFile = `
name = "echo_twice"
description = "Echoes a text by two servers."
input_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
annotations = {"readOnlyHint": True}
def run(text):
    return parallel([("legacy__echo", {"text": text}), ("modern__echo", {"text": text})])
tests = [{"arguments": {"text": "a"}, "calls": {"legacy__echo": ["b"], "modern__echo": ["c"]}, "result": ["b", "c"]}]
`

func scriptStep(source string) client.Step {
	return callOwn("run_script", map[string]any{"script": source})
}

// TestScripts lets real clients of both eras run scripts that call real servers of both eras, with confirmations, questions, progress, calls
// at the same time, and cancellation on the way.
func TestScripts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "echo_twice.star")
	if err := os.WriteFile(file, []byte(triageFile), 0o600); err != nil {
		t.Fatal(err)
	}
	config, audit := featuresConfig(t)
	config["scripts"] = rig.Config{"calls": 20}
	config["profiles"] = rig.Config{"code": rig.Config{"scripts": true, "tools_from": []string{file}, "max_result": "8KiB"}}
	gateway := rig.StartGateway(t, config)
	carryOut(t, gateway.URL+"/code", func(p *searchPlan, key string) {
		for _, upstream := range featureServers {
			p.scripts(upstream, key)
		}
		p.scriptsTogether()
	})
	t.Cleanup(func() { checkScriptAudit(t, gateway, audit) })
}

// scripts calls tools of a server with every feature.
func (p *searchPlan) scripts(upstream, key string) {
	tool := func(name string) string { return publicName(upstream, name) }
	three := scriptStep(fmt.Sprintf(`a = call(%q, {"text": "one"})
b = call(%q, {})
r = try_call(%q)
return [a, b, r.ok, r.error]`, tool("echo"), tool("ask_form"), tool("shrink")))
	three.Await = []client.Want{
		{Method: "elicitation/create", Has: "may the tool " + tool("ask_form") + " be called?"}, {Method: "elicitation/create", Has: "What is your name?"},
	}
	p.add(three, func(o client.Outcome) {
		got := client.Decode[resultOf](p.t, o).text()
		if !strings.Contains(got, `["echo: one",`) || !strings.Contains(got, "Hello, Ann!") || !strings.Contains(got, `false,"there is no tool \"`+tool("shrink")) {
			p.t.Errorf("a script with a question: %s", got)
		}
		for _, want := range three.Await {
			if !slices.ContainsFunc(o.Events, func(e client.Event) bool { return e.Is(want) }) {
				p.t.Errorf("no question with %q", want.Has)
			}
		}
	})
	p.says(scriptStep(fmt.Sprintf(`call(%q)`, tool("sample"))), "The model says: Paris")
	p.says(scriptStep(fmt.Sprintf(`call(%q)`, tool("rounds"))), "named Ann, blue, Paris")
	counted := scriptStep(fmt.Sprintf(`call(%q)`, tool("count")))
	counted.Progress = 5 // the beginning, three of the tool, the end
	p.says(counted, "counted")
	if upstream == "modern" { // the server of the Go SDK does not notice a cancellation: see test/matrix
		return
	}
	wait := scriptStep(fmt.Sprintf("parallel([(%q, {'key': %q})])\nwhile True: call(%[1]q, {'key': 'never'})", tool("wait"), "script-"+key))
	wait.Cancel = 2 // the first update says that the script calls the tool, the second comes from the tool
	p.add(wait, func(o client.Outcome) {
		if o.Error == nil {
			p.t.Errorf("%s: the result of a cancelled script is %s", upstream, o.Result)
		}
	})
	p.says(callOwn(tool("cancelled"), map[string]any{"key": "script-" + key, "within": 45_000}), `"cancelled"`)
}

// scriptsTogether calls several servers, fails, and returns much.
func (p *searchPlan) scriptsTogether() {
	p.says(scriptStep(`parallel([(s + "__echo", {"text": str(i)}) for i in range(3) for s in ["legacy", "modern", "script"]])`),
		`[\"echo: 0\",\"echo: 0\",\"echo: 0\",\"echo: 1\",\"echo: 1\",\"echo: 1\",\"echo: 2\",\"echo: 2\",\"echo: 2\"]`)
	p.says(callOwn("echo_twice", map[string]any{"text": "x"}), `[\"echo: x\",\"echo: x\"]`)
	p.says(callOwn("echo_twice", map[string]any{}), `text`)
	p.says(scriptStep(`call("echo_twice", text = "y")`), `[\"echo: y\",\"echo: y\"]`)
	p.says(scriptStep(`for i in range(100): call("legacy__echo", {"text": "x"})`), "line 1, column 26: the script makes more than 20 calls")
	p.says(scriptStep("x = 1\ny = x + 'a'"), "line 2, column 7: unknown binary op: int + string")
	p.says(scriptStep(`search("shrink")`), `[`)
	p.says(scriptStep(`describe("legacy__echo")`), `legacy__echo(`)
	p.says(scriptStep(`[len(call("legacy__echo", {"text": "x" * 20000})), "y" * 20000]`), "read_result") // max_result holds for the result of the script alone
}

// checkScriptAudit stops the gateway, and checks that the audit names the calls of the scripts and no own tool.
func checkScriptAudit(t *testing.T, g *rig.Gateway, file string) {
	if err := g.Process.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"run_script", "echo_twice"} {
		if strings.Contains(string(text), own) {
			t.Errorf("the audit has %s", own)
		}
	}
	for _, inner := range []string{`"item":"modern__ask_form"`, `"outcome":"accepted"`, `"profile":"code"`, `"item":"legacy__shrink"`} {
		if !strings.Contains(string(text), inner) {
			t.Errorf("the audit has no %s", inner)
		}
	}
	for line := range strings.Lines(string(text)) {
		var entry struct{ Request, Item string }
		if err := json.Unmarshal([]byte(line), &entry); err == nil && entry.Item != "" && !strings.HasSuffix(entry.Item, "__cancelled") && !strings.Contains(entry.Request, ".") {
			t.Errorf("a call of a script has the request id %q: %s", entry.Request, line)
		}
	}
}
