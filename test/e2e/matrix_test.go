package e2e

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"
)

// TestClients lets every client use every server through one gateway.
func TestClients(t *testing.T) {
	servers := upstreams(t)
	inventories := make(map[string]inventory)
	config := make(rig.Upstreams)
	for _, u := range servers {
		inventories[u.name] = take(t, u)
		config[u.name] = u.config
	}
	gateway := rig.StartGateway(t, rig.Config{"upstreams": config})
	use := func(name string, c client.Client, target client.Target) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, checks := plan(c, servers)
			transcript := c.Run(t, target, append(listSteps(), steps...))
			if transcript.Connect != nil {
				t.Run("connect", func(t *testing.T) { checkConnect(t, c, target, *transcript.Connect) })
			}
			checkLists(t, c, servers, inventories, transcript.Steps[:len(kinds)])
			for i, outcome := range transcript.Steps[len(kinds):] {
				t.Run(checks[i].name, func(t *testing.T) { checks[i].verify(t, outcome) })
			}
		})
	}
	for _, c := range client.All() {
		use(c.Name(), c, client.Target{URL: gateway.URL})
	}
	for _, c := range []client.Client{client.V1(), client.GoSDK(client.Legacy)} {
		use(c.Name()+" over HTTP+SSE", c, client.Target{SSE: gateway.SSE})
	}
	// On stdio each client starts its own gateway, which starts its own servers.
	command := rig.StdioCommand(t, rig.Config{"upstreams": config})
	for _, c := range []client.Client{client.V1(), client.V2(client.Modern), client.GoSDK(client.Legacy)} {
		use(c.Name()+" over stdio", c, client.Target{Command: command})
	}
}

// TestServersWithoutGateway runs every exercise without the gateway. An exercise that fails only in TestClients is a fault of the gateway.
func TestServersWithoutGateway(t *testing.T) {
	for _, u := range upstreams(t) {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			take(t, u)
			var steps []client.Step
			for _, e := range u.exercises {
				steps = append(steps, e.step)
			}
			for i, outcome := range u.asker.Run(t, u.target, steps).Steps {
				checkResult(t, u.exercises[i], "", outcome)
			}
		})
	}
}

// check is the expected outcome of one step.
type check struct {
	name   string
	verify func(*testing.T, client.Outcome)
}

// plan returns a client's steps after the lists.
func plan(c client.Client, servers []upstream) ([]client.Step, []check) {
	var steps []client.Step
	var checks []check
	slow := !c.Can("completion/complete") // the inspector starts a process for every step and has no completion
	for _, u := range servers {
		for _, e := range u.exercises {
			if !c.Can(e.step.Method) || slow && !e.essential {
				continue
			}
			steps = append(steps, publicly(u.name, e.step))
			checks = append(checks, check{
				name:   fmt.Sprintf("%s %s %v", u.name, e.step.Method, subject(e.step)),
				verify: func(t *testing.T, outcome client.Outcome) { checkResult(t, e, publicURI(u.name, ""), outcome) },
			})
		}
	}
	if slow {
		return steps, checks
	}
	for _, r := range refusals(c) {
		steps = append(steps, r.step)
		checks = append(checks, check{name: "refused: " + r.name, verify: func(t *testing.T, outcome client.Outcome) {
			if outcome.Error == nil || outcome.Error.Code != r.code {
				t.Errorf("error %+v, result %s; want error %d", outcome.Error, outcome.Result, r.code)
			}
		}})
	}
	if c.Can("ping") {
		steps = append(steps, client.Step{Method: "ping"})
		checks = append(checks, check{name: "ping", verify: func(t *testing.T, outcome client.Outcome) {
			if outcome.Error != nil {
				t.Errorf("error %+v", outcome.Error)
			}
		}})
	}
	return steps, checks
}

// subject returns the item of a step, for the test's name.
func subject(step client.Step) any {
	for _, member := range []string{"name", "uri", "ref"} {
		if value, ok := step.Params[member]; ok {
			return value
		}
	}
	return ""
}

// checkResult checks the result of an exercise. uriPrefix is the prefix of its public URIs.
func checkResult(t *testing.T, e exercise, uriPrefix string, outcome client.Outcome) {
	t.Helper()
	if outcome.Error != nil {
		t.Errorf("%s %v: error %d: %s %s", outcome.Method, subject(e.step), outcome.Error.Code, outcome.Error.Message, outcome.Error.Data)
		return
	}
	result := compact(t, outcome.Result)
	for _, want := range e.want {
		if want := strings.ReplaceAll(want, uriMark, uriPrefix); !strings.Contains(result, want) {
			t.Errorf("%s %v: %s is missing in %s", outcome.Method, subject(e.step), want, result)
		}
	}
	if len(outcome.Progress) != e.step.Progress {
		t.Errorf("%s %v: progress %s, want %d updates", outcome.Method, subject(e.step), outcome.Progress, e.step.Progress)
	}
}

// checkConnect checks the gateway's description of itself.
func checkConnect(t *testing.T, c client.Client, target client.Target, connect client.Outcome) {
	info := client.Decode[struct {
		ProtocolVersion string                    `json:"protocolVersion"`
		Capabilities    map[string]map[string]any `json:"capabilities"`
		Instructions    string                    `json:"instructions"`
	}](t, connect)
	want := map[string]string{client.Legacy: "2025-11-25", client.Modern: "2026-07-28"}[c.Era()]
	if c == client.V1() && target.URL == "" {
		want = "" // this client does not report it then
	}
	if info.ProtocolVersion != want {
		t.Errorf("revision %q, want %q", info.ProtocolVersion, want)
	}
	for _, capability := range []string{"tools", "prompts", "resources", "completions", "logging"} {
		if _, ok := info.Capabilities[capability]; !ok {
			t.Errorf("capability %s is not declared: %v", capability, info.Capabilities)
		}
	}
	if target.Command != nil {
		return // a gateway that was just started answers initialize before its servers are ready
	}
	for _, upstream := range []string{"everything", "everything-http", "everything-sse"} {
		if !strings.Contains(info.Instructions, upstream) {
			t.Errorf("the instructions do not include those of %s: %q", upstream, info.Instructions)
		}
	}
}

// refusal is a request that the gateway must answer with an error of its own.
type refusal struct {
	name string
	step client.Step
	code int
}

func refusals(c client.Client) []refusal {
	tool := func(name string) client.Step {
		return client.Step{Method: "tools/call", Params: map[string]any{"name": name, "arguments": map[string]any{}}}
	}
	// A missing resource has a special code in the legacy era (spec 2025-11-25, server/resources).
	notFound := map[string]int{client.Legacy: -32002, client.Modern: -32602}[c.Era()]
	if c == client.V2(client.Legacy) {
		notFound = -32602 // this client reports -32002 as the code of the modern era
	}
	return []refusal{
		{"unknown tool", tool("everything__no-such-tool"), -32602},
		{"native name of a tool", tool("get-sum"), -32602},
		{"tool of an unknown upstream", tool("nobody__get-sum"), -32602},
		{"unknown prompt", client.Step{Method: "prompts/get", Params: map[string]any{"name": "everything__no-such-prompt"}}, -32602},
		{"native URI of a resource", client.Step{Method: "resources/read", Params: map[string]any{"uri": "demo://resource/dynamic/text/7"}}, notFound},
		{"resource of an unknown upstream", client.Step{Method: "resources/read", Params: map[string]any{"uri": "nobody+demo://resource/dynamic/text/7"}}, notFound},
	}
}
