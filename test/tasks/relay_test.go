package tasks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// task has the members that both forms of a task share.
type task struct {
	ResultType    string `json:"resultType"`
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	Task          *task  `json:"task"`
	Tasks         []task `json:"tasks"`
	InputRequests map[string]struct {
		Params struct{ Message string }
	} `json:"inputRequests"`
	Result json.RawMessage `json:"result"`
	Meta   struct {
		Related      struct{ TaskID string } `json:"io.modelcontextprotocol/related-task"`
		Subscription any                     `json:"io.modelcontextprotocol/subscriptionId"`
	} `json:"_meta"`
}

func read(t *testing.T, text string) task {
	t.Helper()
	var out task
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// A client of 2025-11-25 runs a tool as a task: it gets the gateway's task id, receives each change on its stream, and fetches the result.
func TestRelayToLegacyClient(t *testing.T) {
	for _, stdio := range []bool{false, true} {
		t.Run(fmt.Sprintf("stdio=%t", stdio), func(t *testing.T) {
			gateway := rig.StartGateway(t, rig.Config{"upstreams": upstreams(t, rig.Legacy, stdio)})
			c, err := raw.Open(t.Context(), gateway.URL, raw.Legacy)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := c.Subscribe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			ask := func(method, params string) task {
				t.Helper()
				m, err := c.Call(t.Context(), method, params)
				if err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				return read(t, m.Member("result"))
			}
			created := ask("tools/call", `{"name":"jobs__steps","arguments":{"seconds":2},"task":{"ttl":60000}}`) // the task runs during the requests below
			if created.Task == nil || strings.HasPrefix(created.Task.TaskID, "task-") {
				t.Fatalf("created %+v, want a task with an id of the gateway", created)
			}
			id := created.Task.TaskID
			named := fmt.Sprintf(`{"taskId":%q}`, id)
			if got := ask("tasks/get", named); got.TaskID != id || got.Status != "working" {
				t.Errorf("tasks/get %+v", got)
			}
			if got := ask("tasks/list", `{}`).Tasks; len(got) != 1 || got[0].TaskID != id {
				t.Errorf("tasks/list %+v", got)
			}
			if got := ask("tasks/result", named); got.Meta.Related.TaskID != id {
				t.Errorf("tasks/result belongs to %+v", got.Meta)
			}
			for status := ""; status != "completed"; {
				m, err := stream.Next()
				if err != nil {
					t.Fatal(err)
				}
				if m.Method() != "notifications/tasks/status" {
					continue
				}
				update := read(t, m.Member("params"))
				if update.TaskID != id {
					t.Errorf("notified of %q", update.TaskID)
				}
				status = update.Status
			}
			cancelled := ask("tools/call", `{"name":"jobs__slow_compute","arguments":{"seconds":600},"task":{}}`).Task.TaskID
			if got := ask("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, cancelled)); got.TaskID != cancelled || got.Status != "cancelled" {
				t.Errorf("tasks/cancel %+v", got)
			}
			_, err = c.Call(t.Context(), "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, cancelled))
			if fault, ok := err.(*raw.Fault); !ok || fault.Code != -32602 {
				t.Errorf("cancelled twice: %v", err)
			}
		})
	}
}

// modern are the _meta members of a client that supports tasks and answers questions.
const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + raw.Modern + `","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// A modern client that declared the extension receives changes of its tasks on a subscription, and answers their questions.
func TestRelayToModernClient(t *testing.T) {
	for _, stdio := range []bool{false, true} {
		t.Run(fmt.Sprintf("stdio=%t", stdio), func(t *testing.T) {
			gateway := rig.StartGateway(t, rig.Config{"upstreams": upstreams(t, rig.Modern, stdio)})
			c, err := raw.Open(t.Context(), gateway.URL, raw.Modern)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(method, name, params string) task {
				t.Helper()
				header := http.Header{"Mcp-Method": {method}, "Mcp-Name": {name}}
				answer, err := c.Post(t.Context(), header, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, modern))
				if err != nil {
					t.Fatal(err)
				}
				if fault := answer.Response.Fault(); fault != nil {
					t.Fatalf("%s: %v", method, fault)
				}
				return read(t, answer.Response.Member("result"))
			}
			created := ask("tools/call", "jobs__confirm_delete", `"name":"jobs__confirm_delete","arguments":{"filename":"a.txt"}`)
			id := created.TaskID
			if created.ResultType != "task" || strings.HasPrefix(id, "task-") {
				t.Fatalf("created %+v, want a task with an id of the gateway", created)
			}
			events := listen(t, gateway.URL, fmt.Sprintf(`{"taskIds":[%q,"task-of-nobody"]}`, id))
			acknowledged := events.next(t)
			var honored struct {
				Notifications struct{ TaskIDs []string }
			}
			if err := json.Unmarshal([]byte(acknowledged.Member("params")), &honored); err != nil || !slices.Equal(honored.Notifications.TaskIDs, []string{id}) {
				t.Fatalf("acknowledged %s, want the only task", acknowledged.Text)
			}
			update := events.until(t, id, "input_required")
			for key, question := range update.InputRequests {
				if question.Params.Message != "jobs: Delete a.txt?" {
					t.Errorf("asked %q", question.Params.Message)
				}
				ask("tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"confirm":true}}}`, id, key))
			}
			if update = events.until(t, id, "completed"); !strings.Contains(string(update.Result), `\"confirm\":true`) {
				t.Errorf("result %s", update.Result)
			}
		})
	}
}

// A client without the extension must not listen to tasks.
func TestListenNeedsTheExtension(t *testing.T) {
	gateway := rig.StartGateway(t, rig.Config{"upstreams": upstreams(t, rig.Modern, false)})
	c, err := raw.Open(t.Context(), gateway.URL, raw.Modern)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Call(t.Context(), "subscriptions/listen", `{"notifications":{"taskIds":["x"]}}`)
	if fault, ok := err.(*raw.Fault); !ok || fault.Code != -32021 || !strings.HasPrefix(string(fault.Data), `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"requestId":`) {
		t.Errorf("error %v", err)
	}
}

// events are the messages of a subscription.
type events struct{ lines *bufio.Reader }

// listen opens a subscription that ends with the test.
func listen(t *testing.T, url, filter string) events {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":%s,%s}}`, filter, modern)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {raw.Modern}, "Mcp-Method": {"subscriptions/listen"},
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s", response.Status, text)
	}
	return events{bufio.NewReader(response.Body)}
}

func (e events) next(t *testing.T) raw.Message {
	t.Helper()
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the subscription ended: %v", err)
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			m, err := raw.Read(text)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
}

// until returns the task once it has the status.
func (e events) until(t *testing.T, id, status string) task {
	t.Helper()
	for {
		m := e.next(t)
		update := read(t, m.Member("params"))
		if m.Method() != "notifications/tasks" || update.TaskID != id || update.Meta.Subscription != "l" {
			t.Fatalf("received %s", m.Text)
		}
		if update.Status == status {
			return update
		}
	}
}
