package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/rig"

	"github.com/google/go-cmp/cmp"
)

// TestOlderRevisions connects the strict client, with every revision that it supports, to servers of both eras that send features of the newest
// revision. The client accepts every list and every result.
func TestOlderRevisions(t *testing.T) {
	gateway := rig.StartGateway(t, rig.Config{"upstreams": rig.Upstreams{
		"modern": {"url": startNewest(t, client.Modern)},
		"legacy": {"url": startNewest(t, client.Legacy)},
	}})
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			steps := listSteps()
			var checks []newestCheck
			for _, upstream := range []string{"modern", "legacy"} {
				for _, check := range newestChecks(upstream, revision) {
					checks = append(checks, check)
					steps = append(steps, check.step)
				}
			}
			transcript := client.V1At(revision).Run(t, client.Target{URL: gateway.URL}, steps)
			if info := client.Decode[struct{ ProtocolVersion string }](t, *transcript.Connect); info.ProtocolVersion != revision {
				t.Fatalf("revision %q", info.ProtocolVersion)
			}
			for i, items := range []int{16, 2, 2, 2} {
				if got := client.Decode[client.List](t, transcript.Steps[i]).Items; len(got) != items {
					t.Errorf("%s: %d items, want %d: %v", transcript.Steps[i].Method, len(got), items, got)
				}
			}
			for i, check := range checks {
				check.check(t, transcript.Steps[len(kinds)+i])
			}
		})
	}
	t.Run("counted", func(t *testing.T) {
		text := metrics(t, gateway)
		for _, kind := range []string{"audio", "resource_link", "structured_content", "output_schema", "boolean_schema", "task_required"} {
			if !strings.Contains(text, `mcp_gateway_downlevelled_total{kind="`+kind+`"}`) {
				t.Errorf("the metric counts no %s", kind)
			}
		}
	})
}

// TestStrictClientRefusesTheNewest verifies that the client of TestOlderRevisions is strict.
func TestStrictClientRefusesTheNewest(t *testing.T) {
	target := client.Target{URL: startNewest(t, client.Legacy)}
	tool := func(name string) client.Step {
		return client.Step{Method: "tools/call", Params: map[string]any{"name": name, "arguments": map[string]any{}}}
	}
	steps := []client.Step{{Method: "tools/list"}, tool("list"), tool("number"), tool("either")}
	for _, outcome := range client.V1().Run(t, target, steps).Steps {
		if outcome.Error == nil {
			t.Errorf("%s: accepted: %s", outcome.Method, outcome.Result)
		}
	}
}

// newestCheck is a request and its expected result, as the client reports it.
type newestCheck struct {
	step client.Step
	want string
}

func (c newestCheck) check(t *testing.T, outcome client.Outcome) {
	t.Helper()
	name := outcome.Method + " " + subject(c.step).(string)
	if outcome.Error != nil {
		t.Errorf("%s: error %d: %s", name, outcome.Error.Code, outcome.Error.Message)
		return
	}
	if diff := cmp.Diff(c.want, compact(t, outcome.Result)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if len(outcome.Progress) != c.step.Progress {
		t.Errorf("%s: progress %s, want %d updates", name, outcome.Progress, c.step.Progress)
	}
}

// newestChecks returns the calls of one upstream and their results at a revision.
func newestChecks(upstream, revision string) []newestCheck {
	thing := publicURI(upstream, "new:thing")
	audio := `{"data":"UklGRiQA","mimeType":"audio/wav","type":"audio"}`
	if revision < "2025-03-26" {
		audio = `{"text":"Audio, left out because the client's protocol revision has none.\nMIME type: audio/wav\nSize: 6 bytes","type":"text"}`
	}
	link := `{"description":"D","icons":[{"src":"data:,"}],"mimeType":"text/plain","name":"thing","size":3,"title":"T","type":"resource_link","uri":"` + thing + `"}`
	if revision < "2025-06-18" {
		link = `{"text":"Link to a resource.\nName: thing\nTitle: T\nURI: ` + thing + `\nDescription: D\nMIME type: text/plain\nSize: 3 bytes","type":"text"}`
	}
	text := func(text string) string { return `{"content":[{"text":"` + text + `","type":"text"}]}` }
	tool := func(name, want string) newestCheck {
		params := map[string]any{"name": publicName(upstream, name), "arguments": map[string]any{}}
		return newestCheck{client.Step{Method: "tools/call", Params: params}, want}
	}
	plain := tool("plain", text("plain"))
	plain.step.Progress = 1
	checks := []newestCheck{
		plain,
		tool("list", text("[1, 2]")),
		tool("number", text("17")),
		tool("either", `{"content":[{"text":"nothing","type":"text"},{"text":"null","type":"text"}]}`),
		tool("object", `{"content":[{"text":"{\"n\":1,\"any\":[]}","type":"text"}],"structuredContent":{"any":[],"n":1}}`),
		tool("any", `{"_meta":{"a/b":1},"content":[{"text":"any","type":"text"}]}`),
		tool("media", `{"content":[`+audio+`,`+link+`]}`),
		{
			client.Step{Method: "prompts/get", Params: map[string]any{"name": publicName(upstream, "media")}},
			`{"messages":[{"content":` + audio + `,"role":"user"},{"content":` + link + `,"role":"assistant"}]}`,
		},
		{
			client.Step{Method: "resources/read", Params: map[string]any{"uri": thing}},
			`{"contents":[{"_meta":{"a/b":1},"mimeType":"text/plain","text":"thing","uri":"` + thing + `"}]}`,
		},
	}
	if revision < "2025-11-25" { // a client that supports tasks calls this tool only as a task
		checks = append(checks, tool("task", text("task")))
	}
	return checks
}

// metrics returns the gateway's metrics in text format.
func metrics(t *testing.T, gateway *rig.Gateway) string {
	t.Helper()
	scraper := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := scraper.Get(gateway.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
