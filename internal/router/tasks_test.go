package router

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/wire"
)

const (
	tasksDeclared = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	legacyTasks   = `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`
	modernTasks   = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	bothTasks     = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":{"requests":{"tools":{"call":{}}}}}`
)

// tasksUpstream is an upstream that answers each method with a result or an
// error object, in which {id} stands for the task's id, and records requests.
type tasksUpstream struct {
	oneSession
	revision wire.Revision
	answers  map[string]string

	mu   sync.Mutex
	sent []string
	caps []string // that each call declared
	back call.BackChannel
}

func (u *tasksUpstream) Do(_ context.Context, c *call.Call) (call.Result, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent = append(u.sent, c.Method+" "+string(c.Params))
	u.caps = append(u.caps, string(c.Client.Capabilities))
	u.back = c.Back
	answer := u.answers[c.Method]
	if code, message, fault := strings.Cut(answer, "!"); fault {
		e := &wire.Error{Message: message, Raw: wire.Raw(fmt.Sprintf(`{"code":%s,"message":%q}`, code, message))}
		fmt.Sscan(code, &e.Code)
		return call.Result{}, e
	}
	return call.Result{Raw: wire.Raw(answer), Revision: u.revision}, nil
}

func routerWithTasks(t *testing.T, u *tasksUpstream, capabilities string, tools ...string) *Router {
	t.Helper()
	return logged(t, zap.NewNop(), u, capabilities, tools...)
}

func logged(t *testing.T, log *zap.Logger, u *tasksUpstream, capabilities string, tools ...string) *Router {
	t.Helper()
	src := source(t, "files", nil)
	src.Revision = u.revision
	if capabilities != "" {
		src.Capabilities = wire.Raw(capabilities)
	}
	for _, tool := range tools {
		src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(tool))
	}
	h := newTestRouter(t, nil, src)
	h.logTo(log)
	routes := *h.Routes()
	routes.Upstreams = map[string]Upstream{"files": u}
	h.Swap(&routes)
	return h.Router
}

const (
	anyTool  = `{"name":"read","inputSchema":{"type":"object"}}`
	taskTool = `{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`
)

// ask sends a request for a principal and returns the result or the error as text.
func ask(t *testing.T, r *Router, revision wire.Revision, caps, who, method, params string) string {
	t.Helper()
	c := callOf(revision, caps, params, &recorder{})
	c.Method = method
	c.Principal = &call.Principal{Subject: who, AuthMethod: "jwt"}
	res, err := r.Handle(t.Context(), c)
	if err != nil {
		return err.Error()
	}
	return string(res.Raw)
}

// A modern client with support for tasks gets a public task id, and everything else unchanged.
func TestModernTask(t *testing.T) {
	const link = `{"content":[{"type":"resource_link","uri":"%sfile:///a","name":"a"}]}`
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call":   `{"resultType":"task","taskId":"n1","status":"working","x":1e400}`,
		"tasks/get":    `{"taskId":"n1","status":"completed","result":` + fmt.Sprintf(link, "") + `}`,
		"tasks/update": `{"resultType":"complete"}`,
		"tasks/cancel": `{"resultType":"complete"}`,
	}}
	r := routerWithTasks(t, u, modernTasks, anyTool)
	created := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tools/call", `{"name":"files__read","task":{}}`)
	id := wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
	if want := strings.Replace(u.answers["tools/call"], "n1", id, 1); created != want || id == "n1" {
		t.Errorf("created %s, want %s", created, want)
	}
	for _, tc := range []struct{ method, params, want string }{
		{"tasks/get", `{"taskId":"` + id + `"}`, `{"taskId":"` + id + `","status":"completed","result":` + fmt.Sprintf(link, "files+") + `}`},
		{"tasks/update", `{"inputResponses":{"k":{"a":1.0}},"taskId":"` + id + `"}`, `{"resultType":"complete"}`},
		{"tasks/cancel", `{"taskId":"` + id + `"}`, `{"resultType":"complete"}`},
	} {
		if got := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", tc.method, tc.params); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.method, got, tc.want)
		}
	}
	want := "tools/call {\"name\":\"read\",\"task\":{}}\ntasks/get {\"taskId\":\"n1\"}\ntasks/update {\"inputResponses\":{\"k\":{\"a\":1.0}},\"taskId\":\"n1\"}\ntasks/cancel {\"taskId\":\"n1\"}"
	if diff := cmp.Diff(want, strings.Join(u.sent, "\n")); diff != "" {
		t.Error(diff)
	}
}

// A client of 2025-11-25 that asks for a task gets a public task id, too.
func TestLegacyTask(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call":   `{"task":{"taskId":"n1","status":"working"}}`,
		"tasks/get":    `{"taskId":"n1","status":"working"}`,
		"tasks/result": `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"n1"}}}`,
		"tasks/cancel": `-32602!it has ended`,
	}}
	r := routerWithTasks(t, u, legacyTasks, taskTool)
	created := ask(t, r, wire.Rev20251125, `{}`, "ann", "tools/call", `{"name":"files__job","task":{"ttl":5}}`)
	id := wire.ValueOf(wire.Raw(created)).Get("task", "taskId").Str()
	if created != `{"task":{"taskId":"`+id+`","status":"working"}}` || id == "n1" {
		t.Errorf("created %s", created)
	}
	for _, tc := range []struct{ method, params, want string }{
		{"tasks/get", `{"taskId":"` + id + `"}`, `{"taskId":"` + id + `","status":"working"}`},
		{"tasks/result", `{"taskId":"` + id + `"}`, `{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}}`},
		{"tasks/cancel", `{"taskId":"` + id + `"}`, `it has ended (-32602)`},
		{"tasks/list", `{}`, `{"tasks":[{"taskId":"` + id + `","status":"working"}]}`},
		{"tasks/update", `{"taskId":"` + id + `"}`, `method tasks/update is not known to revision 2025-11-25 (-32601)`},
	} {
		if got := ask(t, r, wire.Rev20251125, `{}`, "ann", tc.method, tc.params); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.method, got, tc.want)
		}
	}
	if u.sent[0] != `tools/call {"name":"job","task":{"ttl":5}}` {
		t.Errorf("the upstream got %s", u.sent[0])
	}
	if got := ask(t, r, wire.Rev20251125, `{}`, "bob", "tasks/list", `{}`); got != `{"tasks":[]}` {
		t.Errorf("another principal lists %s", got)
	}
}

func TestTasksNeedTheExtension(t *testing.T) {
	r := routerWithTasks(t, &tasksUpstream{revision: wire.Rev20260728}, bothTasks, anyTool)
	for _, tc := range []struct {
		revision           wire.Revision
		caps, method, want string
	}{
		{wire.Rev20260728, `{}`, "tasks/get", "the request needs a capability that the client did not declare (-32021)"},
		{wire.Rev20260728, `{}`, "tasks/cancel", "the request needs a capability that the client did not declare (-32021)"},
		{wire.Rev20260728, tasksDeclared, "tasks/result", "method tasks/result is not known to revision 2026-07-28 (-32601)"},
		{wire.Rev20260728, tasksDeclared, "tasks/list", "method tasks/list is not known to revision 2026-07-28 (-32601)"},
		{wire.Rev20250618, `{}`, "tasks/get", "method tasks/get is not known to revision 2025-06-18 (-32601)"},
		{wire.Rev20251125, `{}`, "tasks/get", "tasks/get: params.taskId must be a string (-32602)"},
	} {
		if got := ask(t, r, tc.revision, tc.caps, "ann", tc.method, `{}`); got != tc.want {
			t.Errorf("%s %s: got %s, want %s", tc.revision, tc.method, got, tc.want)
		}
	}
}

// If no upstream creates tasks, the methods of tasks are unknown to all clients.
func TestWithoutTasksTheirMethodsAreUnknown(t *testing.T) {
	const unknown = "method %s is not known here: no upstream begins tasks (-32601)"
	for _, tc := range []struct {
		capabilities string
		modern       string // the result of tasks/get for a modern client
		legacy       string // and of a legacy one
	}{
		{`{"tools":{}}`, unknown, unknown},
		{modernTasks, "%s: params.taskId must be a string (-32602)", unknown},
		{legacyTasks, unknown, "%s: params.taskId must be a string (-32602)"},
	} {
		r := routerWithTasks(t, &tasksUpstream{revision: wire.Rev20260728}, tc.capabilities, anyTool)
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			if got, want := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", method, `{}`), fmt.Sprintf(tc.modern, method); got != want {
				t.Errorf("%s, modern: got %s, want %s", tc.capabilities, got, want)
			}
			if got, want := ask(t, r, wire.Rev20251125, `{}`, "ann", method, `{}`), fmt.Sprintf(tc.legacy, method); got != want {
				t.Errorf("%s, legacy: got %s, want %s", tc.capabilities, got, want)
			}
		}
	}
	down := newTestRouter(t, nil, source(t, "files", &catalog.Down{Reason: "starting"}))
	if got := ask(t, down.Router, wire.Rev20260728, tasksDeclared, "ann", "tasks/get", `{}`); !strings.Contains(got, "-32602") {
		t.Errorf("while an upstream has not been seen yet: got %s", got)
	}
}

func TestTasksAreDeclared(t *testing.T) {
	const all = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	for _, tc := range []struct {
		name           string
		capabilities   string // of the upstream
		revision       wire.Revision
		tasks, extends string
	}{
		{"2025-11-25, tasks of its own", legacyTasks, wire.Rev20251125, all, ""},
		{"2025-11-25, an unlisted upstream", "", wire.Rev20251125, all, ""},
		{"2025-11-25, tasks of the other era", modernTasks, wire.Rev20251125, "", `{}`},
		{"2025-11-25, none", `{"tools":{}}`, wire.Rev20251125, "", ""},
		{"older", legacyTasks, wire.Rev20250618, "", ""},
		{"modern, tasks of the same era", modernTasks, wire.Rev20260728, "", `{"io.modelcontextprotocol/tasks":{}}`},
		{"modern, tasks of the other era", legacyTasks, wire.Rev20260728, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := routerWithTasks(t, &tasksUpstream{}, tc.capabilities)
			caps := wire.ValueOf(wire.Raw(ask(t, r, tc.revision, `{}`, "ann", "server/discover", `{}`))).Get("capabilities")
			if got := string(caps.Get("tasks").Raw()); got != tc.tasks {
				t.Errorf("tasks are %s, want %s", got, tc.tasks)
			}
			if got := string(caps.Get("extensions").Raw()); got != tc.extends {
				t.Errorf("extensions are %s, want %s", got, tc.extends)
			}
		})
	}
}

// Notifications and questions about a task have the client's task id.
func TestMessagesOfTasks(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/result": `{"content":[]}`,
	}}
	r := routerWithTasks(t, u, legacyTasks, taskTool)
	created := ask(t, r, wire.Rev20251125, `{"elicitation":{}}`, "ann", "tools/call", `{"name":"files__job","task":{}}`)
	id := wire.ValueOf(wire.Raw(created)).Get("task", "taskId").Str()
	ask(t, r, wire.Rev20251125, `{"elicitation":{}}`, "ann", "tasks/result", `{"taskId":"`+id+`"}`)

	client := &recorder{}
	back := u.back.(*taskBackChannel)
	back.to.(*backChannel).to = client
	related := func(id string) string {
		return `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
	}
	answer, err := back.Ask(t.Context(), wire.MethodElicit, wire.Raw(`{"message":"Sure?",`+related("n1")+`}`))
	if want := `{"action":"accept",` + related("n1") + `}`; err != nil || string(answer) != want {
		t.Errorf("answer %s, %v, want %s", answer, err, want)
	}
	if want := wire.MethodElicit + ` {"message":"files: Sure?",` + related(id) + `}`; client.asks[0] != want {
		t.Errorf("asked %s, want %s", client.asks[0], want)
	}
	for _, note := range []string{`{"taskId":"n1","status":"completed"}`, `{"taskId":"n2","status":"completed"}`} {
		back.Notify(wire.NoteTaskStatus, wire.Raw(note))
	}
	back.Notify(wire.NoteMessage, wire.Raw(`{"data":1,`+related("n1")+`}`))
	back.Notify(wire.NoteMessage, wire.Raw(`{"data":2,`+related("n2")+`}`))
	want := []string{
		wire.NoteTaskStatus + ` {"taskId":"` + id + `","status":"completed"}`,
		wire.NoteMessage + ` {"data":1,` + related(id) + `}`,
		wire.NoteMessage + ` {"data":2}`,
	}
	if diff := cmp.Diff(want, client.notes); diff != "" {
		t.Error(diff)
	}
	back.principal = &call.Principal{Subject: "bob", AuthMethod: "jwt"}
	back.Notify(wire.NoteTaskStatus, wire.Raw(`{"taskId":"n1","status":"completed"}`))
	if len(client.notes) != len(want) {
		t.Errorf("another principal got %s", client.notes[len(want):])
	}

	// Outside of any call, the client that created the task is notified.
	key, own, ok := r.TaskStatus("files", "", wire.Raw(`{"taskId":"n1","status":"failed"}`))
	if !ok || key != "session" || string(own) != `{"taskId":"`+id+`","status":"failed"}` {
		t.Errorf("told %q %s, %v", key, own, ok)
	}
	for _, at := range []struct{ session, id string }{{"", "n2"}, {"another", "n1"}} {
		if _, _, ok := r.TaskStatus("files", at.session, wire.Raw(`{"taskId":"`+at.id+`"}`)); ok {
			t.Errorf("the unknown task %s in session %q has an owner", at.id, at.session)
		}
	}
	between := &recorder{}
	outside := func(*call.Client) call.BackChannel { return between }
	owner := r.TaskCall("files", "", "n1", outside)
	if owner == nil || owner.Client.Key != "session" {
		t.Fatalf("the owner of the task is %+v", owner)
	}
	answer, err = owner.Back.Ask(t.Context(), wire.MethodElicit, wire.Raw(`{"message":"Sure?",`+related("n1")+`}`))
	if want := `{"action":"accept",` + related("n1") + `}`; err != nil || string(answer) != want {
		t.Errorf("answer %s, %v, want %s", answer, err, want)
	}
	if want := wire.MethodElicit + ` {"message":"files: Sure?",` + related(id) + `}`; between.asks[0] != want {
		t.Errorf("asked between calls %s, want %s", between.asks[0], want)
	}
	if r.TaskCall("files", "another", "n1", outside) != nil || r.TaskCall("files", "", "n2", outside) != nil {
		t.Error("an unknown task has an owner")
	}
}

func TestTaskListPages(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{}}
	r := routerWithTasks(t, u, legacyTasks, taskTool)
	for n := range taskPage + 10 {
		u.answers["tools/call"] = fmt.Sprintf(`{"task":{"taskId":"n%d"}}`, n)
		ask(t, r, wire.Rev20251125, `{}`, "ann", "tools/call", `{"name":"files__job","task":{}}`)
	}
	u.answers["tasks/get"] = `{"status":"working"}`
	params, sizes := `{}`, []int{}
	for range 2 {
		page := wire.ValueOf(wire.Raw(ask(t, r, wire.Rev20251125, `{}`, "ann", "tasks/list", params)))
		n := 0
		for range page.Get("tasks").Elements() {
			n++
		}
		sizes = append(sizes, n)
		params = `{"cursor":` + string(page.Get("nextCursor").Raw()) + `}`
	}
	if diff := cmp.Diff([]int{taskPage, 10}, sizes); diff != "" || params != `{"cursor":}` {
		t.Errorf("%s, then %s", diff, params)
	}
	if got := ask(t, r, wire.Rev20251125, `{}`, "ann", "tasks/list", `{"cursor":"x"}`); !strings.Contains(got, "-32602") {
		t.Errorf("an invalid cursor got %s", got)
	}
	u.answers["tasks/get"] = `-32602!gone`
	if got := ask(t, r, wire.Rev20251125, `{}`, "ann", "tasks/list", `{}`); !strings.HasPrefix(got, `{"tasks":[]`) {
		t.Errorf("ended tasks are listed: %s", got)
	}
	if left := len(r.tasks.order); left != 10 {
		t.Errorf("%d tasks are registered, want those of the second page", left)
	}
}
