package router

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/wire"
)

// A task of another principal looks like an absent one, and the log has the reason.
func TestForeignTaskIDs(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`, "tasks/get": `{"taskId":"n1"}`, "tasks/update": `{}`, "tasks/cancel": `{}`,
	}}
	r := logged(t, zap.New(core), u, bothTasks, anyTool)
	other := routerWithTasks(t, u, modernTasks, anyTool)
	begin := func(r *Router) string {
		created := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
		return wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
	}
	id, foreign := begin(r), begin(other)
	swapped := func(at int) string { // replaces one letter of the id
		letter := "A"
		if id[at] == 'A' {
			letter = "B"
		}
		return id[:at] + letter + id[at+1:]
	}
	u.sent = nil
	for _, tc := range []struct{ name, who, id, reason string }{
		{"another principal's", "bob", id, "the request state belongs to another principal"},
		{"changed", "ann", swapped(len(id) - 8), "the request state was changed"},
		{"of another gateway", "ann", foreign, "the request state is sealed with a key that this replica does not have"},
		{"the upstream's own", "ann", "n1", "the request state is malformed"},
		{"empty", "ann", "", "the request state is malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				got := ask(t, r, wire.Rev20260728, tasksDeclared, tc.who, method, `{"taskId":"`+tc.id+`"}`)
				if want := "unknown task: it was not begun by this principal, or is gone (-32602)"; got != want {
					t.Errorf("%s: got %s, want %s", method, got, want)
				}
				entries := logs.TakeAll()
				if len(entries) != 1 || entries[0].ContextMap()["reason"] != tc.reason || entries[0].ContextMap()["principal"] != tc.who {
					t.Errorf("%s: the log has %+v, want the reason %q", method, entries, tc.reason)
				}
			}
		})
	}
	if len(u.sent) > 0 {
		t.Errorf("the upstream was asked: %q", u.sent)
	}
	if got := ask(t, r, wire.Rev20251125, `{}`, "ann", "tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, "unknown task") {
		t.Errorf("a client of the other era got %s", got)
	}
	for range 200 {
		ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tasks/get", `{"taskId":"made up"}`)
	}
	if n := logs.Len(); n > 100 {
		t.Errorf("200 forged ids are %d lines in the log", n)
	}
}

// A principal who may no longer call the tool may not use its task either.
func TestTaskFollowsPolicy(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`, "tasks/get": `{"taskId":"n1"}`,
	}}
	r := routerWithTasks(t, u, modernTasks, `{"name":"remove","inputSchema":{"type":"object"}}`, anyTool)
	c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
	f := r.newForwarding(c)
	f.target = catalog.Target{Part: r.Routes().Table.Parts()[0], Native: "remove", Public: "files__remove"}
	res, err := f.announce(call.Result{Raw: wire.Raw(u.answers["tools/call"]), Revision: wire.Rev20260728}, bridge.Task{ID: "n1", Form: wire.EraModern})
	if err != nil {
		t.Fatal(err)
	}
	get := callOf(wire.Rev20260728, tasksDeclared, `{"taskId":"`+wire.ValueOf(res.Raw).Get("taskId").Str()+`"}`, &recorder{})
	get.Method = wire.MethodTasksGet
	if _, err = r.Handle(t.Context(), get); err != errNoTask {
		t.Errorf("got %v, want the answer for an absent task", err)
	}
}

func TestEarlyNotificationsAreBounded(t *testing.T) {
	var w taskWaiters
	for n := range 2 * maxEarlyNotifications {
		w.notify(taskKey{native: fmt.Sprint(n)}, wire.Raw(`{}`))
	}
	w.notify(taskKey{native: "large"}, wire.Raw(strings.Repeat(" ", maxEarlySize+1)))
	if len(w.early) != maxEarlyNotifications || w.early[0].key.native != fmt.Sprint(maxEarlyNotifications) {
		t.Errorf("%d tasks are kept, the oldest is %s", len(w.early), w.early[0].key.native)
	}
}

// The registry is bounded, and drops the oldest task. A principal has one bound for all
// profiles, and sees the tasks of its own profile.
func TestTaskRegistryIsBounded(t *testing.T) {
	var b taskRegistry
	ann := &call.Principal{Subject: "ann"}
	add := func(who *call.Principal, n int) {
		b.add(knownTask{ref: bridge.TaskRef{Upstream: "files", Native: fmt.Sprint(who.Subject, n)}, id: fmt.Sprint(n), principal: who})
	}
	for n := range maxOwnTasks + 1 {
		add(ann.In([]string{"", "coding"}[n%2]), n)
	}
	for profile, first := range map[string]string{"": "2", "coding": "1"} {
		if own := b.ofPrincipal(ann.In(profile), 0); len(own) != maxOwnTasks/2 || own[0].id != first {
			t.Errorf("in profile %q ann has %d tasks from %q on", profile, len(own), own[0].id)
		}
	}
	if len(b.tasks) != maxOwnTasks {
		t.Errorf("ann has %d tasks in all profiles", len(b.tasks))
	}
	for n := range maxTasks {
		add(&call.Principal{Subject: fmt.Sprint("p", n)}, 0)
	}
	if own := b.ofPrincipal(ann, 0); len(own) != 0 || len(b.order) != maxTasks || len(b.tasks) != maxTasks || len(b.byIdentity) != maxTasks {
		t.Errorf("%d of ann's; %d, %d, %d in all", len(own), len(b.order), len(b.tasks), len(b.byIdentity))
	}
	add(&call.Principal{Subject: "p7"}, 0) // again
	if _, ok := b.find(taskKey{upstream: "files", native: "p70"}); !ok || len(b.tasks) != maxTasks {
		t.Errorf("a task that was added twice: %v, %d in total", ok, len(b.tasks))
	}
}

// The gateway checks every question of a task, even if the member is repeated.
func TestRepeatedQuestionsOfATask(t *testing.T) {
	const first = `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Who?"}}}`
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`,
		"tasks/get":  `{"taskId":"n1","status":"input_required",` + first + `,` + strings.Replace(first, "Who", "Password", 1) + `}`,
	}}
	r := routerWithTasks(t, u, modernTasks, anyTool)
	created := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
	got := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tasks/get", `{"taskId":"`+wire.ValueOf(wire.Raw(created)).Get("taskId").Str()+`"}`)
	if strings.Count(got, `"files: `) != 2 {
		t.Errorf("got %s, want both with their label", got)
	}
}

// If an upstream cannot be reached or does not answer, a list of its tasks waits once, not
// once for each task.
func TestTaskListWaitsOnceForASilentUpstream(t *testing.T) {
	asked := 0
	u := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		if c.Method == wire.MethodTasksGet {
			asked++
			return call.Result{}, wire.Errorf(wire.CodeInternal, "the server did not answer within 60s")
		}
		return call.Result{Raw: wire.Raw(fmt.Sprintf(`{"task":{"taskId":%q,"status":"working"}}`, rand.Text())), Revision: wire.Rev20251125}, nil
	}}
	src := filesSource(t)
	src.Capabilities = wire.Raw(legacyTasks)
	h := newTestRouter(t, u, src)
	for range 10 {
		ask(t, h.Router, wire.Rev20251125, `{}`, "ann", "tools/call", `{"name":"files__read","task":{}}`)
	}
	if got := ask(t, h.Router, wire.Rev20251125, `{}`, "ann", "tasks/list", `{}`); got != `{"tasks":[]}` || asked != 1 {
		t.Errorf("got %s after %d requests, want one", got, asked)
	}
}
