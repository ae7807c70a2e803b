package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// through returns a step that calls a tool by an own tool of the gateway.
func through(by, tool string, arguments map[string]any) client.Step {
	inner := map[string]any{"name": tool}
	if arguments != nil {
		inner["arguments"] = arguments
	}
	return callOwn(by, inner)
}

// callOwn returns a step that calls a tool of the gateway.
func callOwn(tool string, arguments map[string]any) client.Step {
	return client.Step{Method: "tools/call", Params: map[string]any{"name": tool, "arguments": arguments}}
}

// resultOf is the result of a tool.
type resultOf struct {
	Content           []struct{ Type, Text string }
	StructuredContent json.RawMessage
	IsError           bool
}

func (r resultOf) text() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// TestSearch lets real clients of both eras find tools of real servers of both eras, describe them, and call them through call_tool, with
// confirmations, questions, progress and cancellation on the way.
func TestSearch(t *testing.T) {
	everything := rig.EverythingCommand(t)
	config, audit := featuresConfig(t)
	config["upstreams"].(rig.Upstreams)["e"] = rig.Config{"command": everything[0], "args": everything[1:]}
	config["profiles"] = rig.Config{"find": rig.Config{"catalog": "search", "pinned": []string{"e__echo"}}}
	gateway := rig.StartGateway(t, config)
	carryOut(t, gateway.URL+"/find", func(p *searchPlan, key string) {
		p.finds()
		for _, upstream := range featureServers {
			p.uses(upstream, key)
		}
		p.corrects()
	})
	t.Cleanup(func() { checkSearchAudit(t, gateway, audit) })
}

// featureServers are the upstreams of featuresConfig.
var featureServers = []string{"legacy", "modern", "script"}

// featuresConfig returns a configuration with servers that use every feature, rules about some of their tools, and an audit in a file.
func featuresConfig(t *testing.T) (config rig.Config, audit string) {
	audit = filepath.Join(t.TempDir(), "audit.jsonl")
	return rig.Config{
		"telemetry": rig.Config{"audit": rig.Config{"file": audit}},
		"upstreams": rig.Upstreams{
			"legacy": {"url": rig.Features(t, rig.Legacy), "era": rig.Legacy},
			"modern": {"url": rig.Features(t, rig.Modern), "era": rig.Modern},
			"script": {"url": rig.FeaturesTS(t)},
		},
		"policy": rig.Config{"default": "allow", "rules": []rig.Config{
			{"name": "ask", "effect": "confirm", "what": rig.Config{"tools": []string{"*__ask_form"}}},
			{"name": "never", "effect": "deny", "what": rig.Config{"tools": []string{"*__shrink"}}},
		}},
	}, audit
}

// carryOut has each client carry out the plan that add makes for it, all at the same time, and checks the outcomes. key names the client.
func carryOut(t *testing.T, url string, add func(p *searchPlan, key string)) {
	for _, c := range []client.Client{client.V1(), client.V2(client.Legacy), client.V2(client.Modern), client.GoSDK(client.Legacy), client.GoSDK(client.Modern)} {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			p := &searchPlan{t: t}
			add(p, strings.ReplaceAll(c.Name(), " ", "-"))
			for i, o := range client.Answering(c).Run(t, client.Target{URL: url}, p.steps).Steps {
				p.checks[i](o)
			}
		})
	}
}

// searchPlan is a list of steps, each with the check of its outcome.
type searchPlan struct {
	t      *testing.T
	steps  []client.Step
	checks []func(client.Outcome)
}

func (p *searchPlan) add(s client.Step, check func(client.Outcome)) {
	p.steps, p.checks = append(p.steps, s), append(p.checks, check)
}

// says adds a step whose result must contain a text.
func (p *searchPlan) says(s client.Step, want string) {
	p.add(s, func(o client.Outcome) {
		p.t.Helper()
		if o.Error != nil || !strings.Contains(string(o.Result), want) {
			p.t.Errorf("%v: result %s, error %+v; want %q", s.Params, o.Result, o.Error, want)
		}
		if len(o.Progress) != s.Progress {
			p.t.Errorf("%v: progress %s, want %d updates", s.Params, o.Progress, s.Progress)
		}
		for _, want := range s.Await {
			if !slices.ContainsFunc(o.Events, func(e client.Event) bool { return e.Is(want) }) {
				p.t.Errorf("%v: no %s with %q in %v", s.Params, want.Method, want.Has, o.Events)
			}
		}
	})
}

// finds searches and describes.
func (p *searchPlan) finds() {
	p.add(client.Step{Method: "tools/list"}, func(o client.Outcome) {
		var names []string
		for _, tool := range client.Decode[client.List](p.t, o).Items {
			names = append(names, tool["name"].(string))
		}
		if diff := gocmp.Diff([]string{"search_tools", "describe_tools", "call_tool", "e__echo"}, names); diff != "" {
			p.t.Errorf("listed tools (-want +got):\n%s", diff)
		}
	})
	p.add(callOwn("search_tools", map[string]any{"query": "long running operation", "limit": 3}), func(o client.Outcome) {
		var found struct {
			Tools []struct {
				Name, Description, Upstream, Parameters string
				Score                                   float64
			}
			Total int
		}
		r := client.Decode[resultOf](p.t, o)
		if err := json.Unmarshal(r.StructuredContent, &found); err != nil {
			p.t.Fatal(err)
		}
		first := found.Tools[0]
		if first.Name != "e__trigger-long-running-operation" || first.Upstream != "e" || first.Description == "" || first.Score <= 0 || found.Total < len(found.Tools) {
			p.t.Errorf("found %+v", found)
		}
		if want := "- e__trigger-long-running-operation(duration?: number, steps?: number): "; !strings.Contains(r.text(), want) {
			p.t.Errorf("the text is %q, want %q in it", r.text(), want)
		}
	})
	p.add(callOwn("search_tools", map[string]any{"query": "shrink"}), func(o client.Outcome) {
		if strings.Contains(string(o.Result), "__shrink") {
			p.t.Errorf("a search finds a tool that policy denies: %s", o.Result)
		}
	})
	p.says(callOwn("describe_tools", map[string]any{"names": []string{"e__trigger-long-running-operation"}}), `"inputSchema"`)
}

// uses calls tools of a server with every feature.
func (p *searchPlan) uses(upstream, key string) {
	const by = "call_tool"
	tool := func(name string) string { return publicName(upstream, name) }
	asked := through(by, tool("ask_form"), nil)
	asked.Await = []client.Want{
		{Method: "elicitation/create", Has: "may the tool " + tool("ask_form") + " be called?"}, {Method: "elicitation/create", Has: "What is your name?"},
	}
	p.says(asked, "Hello, Ann!")
	sampled := through(by, tool("sample"), nil)
	sampled.Await = []client.Want{{Method: "sampling/createMessage", Has: "What is the capital of France?"}}
	p.says(sampled, "The model says: Paris")
	if upstream == "modern" { // the session with the others is shared, or not every client can read their question: see test/matrix
		p.says(through(by, tool("roots"), nil), "file:///home/ann")
	}
	p.says(through(by, tool("rounds"), nil), "named Ann, blue, Paris")
	counted := through(by, tool("count"), nil)
	counted.Progress = 3
	p.says(counted, "counted")
	p.says(callOwn(tool("echo"), map[string]any{"text": "directly"}), "echo: directly")
	if upstream == "modern" { // the server of the Go SDK does not notice a cancellation: see test/matrix
		return
	}
	wait := through(by, tool("wait"), map[string]any{"key": key})
	wait.Cancel = 1
	p.add(wait, func(o client.Outcome) {
		if o.Error == nil {
			p.t.Errorf("%s: the result of a cancelled call is %s", upstream, o.Result)
		}
	})
	p.says(through(by, tool("cancelled"), map[string]any{"key": key, "within": 45_000}), `"cancelled"`)
}

// corrects makes mistakes, and gets words to correct them by.
func (p *searchPlan) corrects() {
	p.says(through("call_tool", "e__ehco", map[string]any{"message": "x"}), "Did you mean e__echo?")
	p.says(through("call_tool", "e__echo", nil), "The arguments do not match the input schema of e__echo")
	p.says(through("call_tool", "legacy__shrink", nil), `There is no tool \"legacy__shrink\".`)
	p.says(callOwn("call_tool", map[string]any{"name": "e__echo", "message": "x"}), "Put `message` into `arguments`")
	p.says(callOwn("call_tool", map[string]any{"name": "e__echo", "arguments": `{"message":"as text"}`}), "Echo: as text")
}

// checkSearchAudit stops the gateway, and checks that the audit names the inner tools and no own one.
func checkSearchAudit(t *testing.T, g *rig.Gateway, file string) {
	if err := g.Process.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"search_tools", "describe_tools", "call_tool"} {
		if strings.Contains(string(text), own) {
			t.Errorf("the audit has %s", own)
		}
	}
	for _, inner := range []string{`"item":"modern__ask_form"`, `"outcome":"accepted"`, `"profile":"find"`, `"item":"legacy__shrink"`} {
		if !strings.Contains(string(text), inner) {
			t.Errorf("the audit has no %s", inner)
		}
	}
}
