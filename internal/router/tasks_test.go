package router

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
// error object, {id} standing for the task's own id, and keeps what it was sent.
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

func tasksHouse(t *testing.T, u *tasksUpstream, capabilities string, tools ...string) *Router {
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
	h := newHouse(t, nil, src)
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
	c.Principal = &call.Principal{Subject: who, Proof: "jwt"}
	res, err := r.Handle(t.Context(), c)
	if err != nil {
		return err.Error()
	}
	return string(res.Raw)
}

// A modern client that carries tasks gets an id of its own, and all else as it came.
func TestModernTaskIsCarried(t *testing.T) {
	const link = `{"content":[{"type":"resource_link","uri":"%sfile:///a","name":"a"}]}`
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call":   `{"resultType":"task","taskId":"n1","status":"working","x":1e400}`,
		"tasks/get":    `{"taskId":"n1","status":"completed","result":` + fmt.Sprintf(link, "") + `}`,
		"tasks/update": `{"resultType":"complete"}`,
		"tasks/cancel": `{"resultType":"complete"}`,
	}}
	r := tasksHouse(t, u, modernTasks, anyTool)
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

// So does a client of 2025-11-25 that asks for a task.
func TestLegacyTaskIsCarried(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call":   `{"task":{"taskId":"n1","status":"working"}}`,
		"tasks/get":    `{"taskId":"n1","status":"working"}`,
		"tasks/result": `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"n1"}}}`,
		"tasks/cancel": `-32602!it has ended`,
	}}
	r := tasksHouse(t, u, legacyTasks, taskTool)
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
	r := tasksHouse(t, &tasksUpstream{revision: wire.Rev20260728}, bothTasks, anyTool)
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

// Where nobody begins tasks their methods are as unknown as at a server without them, whatever the client declares.
func TestWithoutTasksTheirMethodsAreUnknown(t *testing.T) {
	const unknown = "method %s is not known here: no upstream begins tasks (-32601)"
	for _, tc := range []struct {
		capabilities string
		modern       string // what tasks/get of a modern client comes to
		legacy       string // and of a legacy one
	}{
		{`{"tools":{}}`, unknown, unknown},
		{modernTasks, "%s: params.taskId must be a string (-32602)", unknown},
		{legacyTasks, unknown, "%s: params.taskId must be a string (-32602)"},
	} {
		r := tasksHouse(t, &tasksUpstream{revision: wire.Rev20260728}, tc.capabilities, anyTool)
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			if got, want := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", method, `{}`), fmt.Sprintf(tc.modern, method); got != want {
				t.Errorf("%s, modern: got %s, want %s", tc.capabilities, got, want)
			}
			if got, want := ask(t, r, wire.Rev20251125, `{}`, "ann", method, `{}`), fmt.Sprintf(tc.legacy, method); got != want {
				t.Errorf("%s, legacy: got %s, want %s", tc.capabilities, got, want)
			}
		}
	}
	down := newHouse(t, nil, source(t, "files", &catalog.Down{Reason: "starting"}))
	if got := ask(t, down.Router, wire.Rev20260728, tasksDeclared, "ann", "tasks/get", `{}`); !strings.Contains(got, "-32602") {
		t.Errorf("while an upstream has not been seen yet: got %s", got)
	}
}

// A client that cannot carry a task gets the result, and what the upstream is told depends on what the client could say.
func TestTaskIsWaitedFor(t *testing.T) {
	legacy := map[string]string{
		"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/get": `{"taskId":"n1","status":"completed"}`,
		"tasks/result": `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"n1"}}}`,
	}
	const link = `{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}]}`
	modern := map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`,
		"tasks/get":  `{"taskId":"n1","status":"completed","result":{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}}`,
	}
	for _, tc := range []struct {
		name, caps, tool string
		revision         wire.Revision
		client, params   string
		answers          map[string]string
		sent, want       string
	}{
		{
			"a required task, legacy client", legacyTasks, taskTool, wire.Rev20251125, `{}`, `{"name":"files__job"}`, legacy,
			`tools/call {"name":"job","task":{"ttl":3600000}}`, link,
		},
		{
			"a required task, modern client", legacyTasks, taskTool, wire.Rev20260728, tasksDeclared, `{"name":"files__job","task":{"ttl":1}}`, legacy,
			`tools/call {"name":"job","task":{"ttl":3600000}}`, link,
		},
		{
			"a member of that name in another revision", legacyTasks, anyTool, wire.Rev20250618, `{}`, `{"task":{},"name":"files__read"}`,
			map[string]string{"tools/call": `{"content":[]}`}, `tools/call {"name":"read"}`, `{"content":[]}`,
		},
		{
			"a required task of an upstream without tasks", `{"tools":{}}`, taskTool, wire.Rev20250618, `{}`, `{"name":"files__job"}`,
			map[string]string{"tools/call": `{"content":[]}`}, `tools/call {"name":"job"}`, `{"content":[]}`,
		},
		{
			"a task in the form of the other era", modernTasks, anyTool, wire.Rev20251125, `{}`, `{"name":"files__read","task":{}}`, modern,
			`tools/call {"name":"read","task":{}}`, link,
		},
		{
			"a task that nobody asked for", modernTasks, anyTool, wire.Rev20251125, `{}`, `{"name":"files__read"}`, modern,
			`tools/call {"name":"read"}`, link,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &tasksUpstream{revision: wire.Rev20251125, answers: tc.answers}
				if tc.caps == modernTasks {
					u.revision = wire.Rev20260728
				}
				r := tasksHouse(t, u, tc.caps, tc.tool)
				if got := ask(t, r, tc.revision, tc.client, "ann", "tools/call", tc.params); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if u.sent[0] != tc.sent {
					t.Errorf("the upstream got %s, want %s", u.sent[0], tc.sent)
				}
				if own := r.tasks.of((&call.Principal{Subject: "ann", Proof: "jwt"}).Key(), 0); len(own) > 0 {
					t.Errorf("the client is held to have %v", own)
				}
			})
		})
	}
}

// The extension is declared for a client that did not, when the upstream insists and the client can do nothing about it, or is ready to wait.
func TestUpstreamInsistsOnTasks(t *testing.T) {
	for _, tc := range []struct {
		name     string
		revision wire.Revision
		params   string
		waits    bool
	}{
		{"a legacy client", wire.Rev20250618, `{"name":"files__read"}`, true},
		{"a modern client that asks for progress", wire.Rev20260728, `{"name":"files__read","_meta":{"progressToken":1}}`, true},
		{"a modern client that does not", wire.Rev20260728, `{"name":"files__read"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := wire.Raw(`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
				refusal := &wire.Error{Code: wire.CodeMissingCapability, Message: "declare it", Data: data}
				refusal.Raw = refusal.Append(nil)
				var caps []string
				u := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
					caps = append(caps, string(c.Client.Capabilities))
					res := call.Result{Revision: wire.Rev20260728, Raw: wire.Raw(`{"status":"completed","result":{"content":[]}}`)}
					switch {
					case !c.Client.Can("extensions", wire.ExtensionTasks):
						return call.Result{}, refusal
					case c.Method == wire.MethodToolsCall:
						res.Raw = wire.Raw(`{"resultType":"task","taskId":"n1","status":"working"}`)
					}
					return res, nil
				}}
				h := newHouse(t, u, filesSource(t))
				got := ask(t, h.Router, tc.revision, `{"roots":{}}`, "ann", "tools/call", tc.params)
				want, calls := `{"content":[]}`, 3
				if !tc.waits {
					want, calls = "declare it (-32021)", 1
				}
				if got != want || len(caps) != calls || caps[0] != `{"roots":{}}` {
					t.Errorf("got %s after %q, want %s after %d calls", got, caps, want, calls)
				}
			})
		})
	}
}

// A legacy client's word about an extension that its revision does not know is not the gateway's.
func TestLegacyClientsDoNotDeclareTheExtension(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{"tools/call": `{"content":[]}`}}
	r := tasksHouse(t, u, modernTasks, anyTool)
	ask(t, r, wire.Rev20251125, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
	if diff := cmp.Diff([]string{`{"elicitation":{},"extensions":{}}`}, u.caps); diff != "" {
		t.Error(diff)
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
		{"2025-11-25, an upstream that is not known yet", "", wire.Rev20251125, all, ""},
		{"2025-11-25, tasks of the other era", modernTasks, wire.Rev20251125, "", `{}`},
		{"2025-11-25, none", `{"tools":{}}`, wire.Rev20251125, "", ""},
		{"older", legacyTasks, wire.Rev20250618, "", ""},
		{"modern, tasks of its own", modernTasks, wire.Rev20260728, "", `{"io.modelcontextprotocol/tasks":{}}`},
		{"modern, tasks of the other era", legacyTasks, wire.Rev20260728, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tasksHouse(t, &tasksUpstream{}, tc.capabilities)
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

// What an upstream tells or asks about a task names the task as the client knows it.
func TestMessagesOfTasks(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/result": `{"content":[]}`,
	}}
	r := tasksHouse(t, u, legacyTasks, taskTool)
	created := ask(t, r, wire.Rev20251125, `{"elicitation":{}}`, "ann", "tools/call", `{"name":"files__job","task":{}}`)
	id := wire.ValueOf(wire.Raw(created)).Get("task", "taskId").Str()
	ask(t, r, wire.Rev20251125, `{"elicitation":{}}`, "ann", "tasks/result", `{"taskId":"`+id+`"}`)

	client := &recorder{}
	back := u.back.(*taskBack)
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
	back.who = &call.Principal{Subject: "bob", Proof: "jwt"}
	back.Notify(wire.NoteTaskStatus, wire.Raw(`{"taskId":"n1","status":"completed"}`))
	if len(client.notes) != len(want) {
		t.Errorf("another principal was told %s", client.notes[len(want):])
	}

	// Outside of any call the one is told who began the task.
	key, own, ok := r.TaskStatus("files", "", wire.Raw(`{"taskId":"n1","status":"failed"}`))
	if !ok || key != "session" || string(own) != `{"taskId":"`+id+`","status":"failed"}` {
		t.Errorf("told %q %s, %v", key, own, ok)
	}
	for _, at := range []struct{ session, id string }{{"", "n2"}, {"another", "n1"}} {
		if _, _, ok := r.TaskStatus("files", at.session, wire.Raw(`{"taskId":"`+at.id+`"}`)); ok {
			t.Errorf("the unknown task %s in session %q is somebody's", at.id, at.session)
		}
	}
	between := &recorder{}
	outside := func(*call.Client) call.BackChannel { return between }
	owner := r.TaskOwner("files", "", "n1", outside)
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
	if r.TaskOwner("files", "another", "n1", outside) != nil || r.TaskOwner("files", "", "n2", outside) != nil {
		t.Error("an unknown task has an owner")
	}
}

// What a task tells while the gateway waits for it becomes progress, also what it
// told before that was known, and what it asks outside of any call is asked.
func TestWaitHearsOfItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
			"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/get": `{"taskId":"n1","status":"working","pollInterval":60000}`,
		}}
		result := make(chan struct{})
		r := tasksHouse(t, u, legacyTasks, taskTool)
		routes := *r.Routes()
		routes.Upstreams = map[string]Upstream{"files": &fakeUpstream{answer: func(ctx context.Context, c *call.Call) (call.Result, error) {
			if c.Method == wire.MethodTasksResult {
				<-result
				return call.Result{Raw: wire.Raw(`{"content":[]}`), Revision: wire.Rev20251125}, nil
			}
			return u.Do(ctx, c)
		}}}
		r.Swap(&routes)
		status := func(message, at string) {
			r.TaskStatus("files", "", wire.Raw(`{"taskId":"n1","status":"working","statusMessage":"`+message+`","lastUpdatedAt":"`+at+`"}`))
		}
		status("one", "1")
		client := &recorder{}
		done := make(chan error, 1)
		go func() {
			_, err := r.Handle(t.Context(), callOf(wire.Rev20250618, `{"elicitation":{}}`, `{"name":"files__job","_meta":{"progressToken":"p"}}`, client))
			done <- err
		}()
		synctest.Wait()
		status("two", "2")
		status("before", "1") // overtaken
		status("two", "2")
		status("three", "2")
		owner := r.TaskOwner("files", "", "n1", nil)
		if owner == nil {
			t.Fatal("nobody waits for the task")
		}
		if got := string(owner.Params); got != `{"_meta":{"progressToken":"p"}}` {
			t.Errorf("the stand-in has the params %s", got)
		}
		if _, err := owner.Back.Ask(t.Context(), wire.MethodElicit, wire.Raw(`{"message":"Sure?"}`)); err != nil {
			t.Error(err)
		}
		owner.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"p","progress":2}`)) // the client has had 3
		owner.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"p","progress":3.5}`))
		status("four", "4") // the upstream counts by itself now
		close(result)
		if err := <-done; err != nil {
			t.Error(err)
		}
		status("late", "3")
		if _, err := owner.Back.Ask(t.Context(), wire.MethodElicit, wire.Raw(`{"message":"Late?"}`)); err == nil {
			t.Error("a question was asked after the call had ended")
		}
		var want []string
		for n, message := range []string{"one", "two", "three"} {
			want = append(want, fmt.Sprintf(`notifications/progress {"progressToken":"p","progress":%d,"message":%q}`, n+1, message))
		}
		want = append(want, `notifications/progress {"progressToken":"p","progress":3.5}`)
		if diff := cmp.Diff(want, client.notes); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{`elicitation/create {"message":"files: Sure?"}`}, client.asks); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		if len(r.waits.open) != 0 {
			t.Error("a wait is left")
		}
	})
}

func TestWatchTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{"tools/call": `{"resultType":"task","taskId":"n1"}`}}
		r := tasksHouse(t, u, modernTasks, anyTool)
		created := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
		id := wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
		c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
		c.Principal = &call.Principal{Subject: "ann", Proof: "jwt"}
		set := func(answer string) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.answers["tasks/get"] = answer
		}
		const head = `"taskId":"n1","pollIntervalMs":1000,`
		set(`{"resultType":"complete",` + head + `"status":"working"}`)
		var mu sync.Mutex
		var told []string
		ready := false
		deliver := func(params wire.Raw) bool {
			mu.Lock()
			defer mu.Unlock()
			if ready {
				told = append(told, strings.Replace(string(params), id, "ID", 1))
			}
			return ready
		}
		if !r.WatchTask(t.Context(), c, id, deliver) {
			t.Fatal("the task is not known")
		}
		time.Sleep(2500 * time.Millisecond) // in the bubble; nobody is ready to hear
		mu.Lock()
		ready = true
		mu.Unlock()
		time.Sleep(3 * time.Second)
		set(`{` + head + `"status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"Sure?"}}}}`)
		time.Sleep(3 * time.Second)
		set(`{` + head + `"status":"completed","result":{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]},"_meta":{}}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		const own = `{"taskId":"ID","pollIntervalMs":1000,`
		want := []string{
			own + `"status":"working"}`,
			own + `"status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"files: Sure?"}}}}`,
			own + `"status":"completed","result":{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}]}}`,
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
		asked := len(u.sent)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(u.sent) != asked {
			t.Error("a task that has ended is asked for")
		}
		c.Principal = call.Anonymous
		if r.WatchTask(t.Context(), c, id, deliver) {
			t.Error("another principal may watch")
		}
	})
}

// A watch ends with its context, and when the task is gone.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
			"tools/call": `{"resultType":"task","taskId":"n1"}`, "tasks/get": `{"taskId":"n1","status":"working"}`,
		}}
		r := tasksHouse(t, u, modernTasks, anyTool)
		created := ask(t, r, wire.Rev20260728, tasksDeclared, call.Anonymous.Subject, "tools/call", `{"name":"files__read"}`)
		id := wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
		c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
		c.Principal = &call.Principal{Subject: call.Anonymous.Subject, Proof: "jwt"}
		ctx, cancel := context.WithCancel(t.Context())
		r.WatchTask(ctx, c, id, func(wire.Raw) bool { return true })
		time.Sleep(1500 * time.Millisecond)
		cancel()
		synctest.Wait() // the bubble ends with an error if the watch goes on
		u.answers["tasks/get"] = `-32602!gone`
		r.WatchTask(t.Context(), c, id, func(wire.Raw) bool { return true })
		synctest.Wait()
		if n := len(u.sent); n != 4 {
			t.Errorf("the upstream got %d requests, want the call, two looks, and one more: %q", n, u.sent)
		}
	})
}

func TestTaskListPages(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{}}
	r := tasksHouse(t, u, legacyTasks, taskTool)
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
		t.Errorf("a cursor of its own got %s", got)
	}
	u.answers["tasks/get"] = `-32602!gone`
	if got := ask(t, r, wire.Rev20251125, `{}`, "ann", "tasks/list", `{}`); !strings.HasPrefix(got, `{"tasks":[]`) {
		t.Errorf("tasks that are gone are listed: %s", got)
	}
	if left := len(r.tasks.order); left != 10 {
		t.Errorf("%d tasks are remembered, want those of the second page", left)
	}
}

// A client that cancels while its task runs cancels the task.
func TestCancelledWaitCancelsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
			"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`, "tasks/get": `{"status":"working","pollIntervalMs":1000}`, "tasks/cancel": `{}`,
		}}
		r := tasksHouse(t, u, modernTasks, anyTool)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		c := callOf(wire.Rev20251125, `{}`, `{"name":"files__read"}`, &recorder{})
		if _, err := r.Handle(ctx, c); err != context.DeadlineExceeded {
			t.Errorf("error %v", err)
		}
		want := "tools/call {\"name\":\"read\"}\ntasks/get {\"taskId\":\"n1\"}\ntasks/cancel {\"taskId\":\"n1\"}"
		if diff := cmp.Diff(want, strings.Join(u.sent, "\n")); diff != "" {
			t.Error(diff)
		}
		if last := u.caps[len(u.caps)-1]; last != `{"extensions":{"io.modelcontextprotocol/tasks":{}}}` {
			t.Errorf("the last request declared %s", last)
		}
	})
}
