package router

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/replica/sharedtasks"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// taskUpstreams is the upstream of two routers. Each call begins another task.
type taskUpstreams struct {
	oneSession
	begun   int
	unknown string // the native id of a task that the upstream does not know any more
	holders []string
}

func (u *taskUpstreams) Do(_ context.Context, c *call.Call) (call.Result, error) {
	id := wire.ValueOf(c.Params).Get("taskId").Str()
	switch {
	case c.Method == wire.MethodToolsCall:
		u.begun++
		id = fmt.Sprint("n", u.begun)
		return call.Result{Raw: wire.Raw(`{"task":{"taskId":"` + id + `","status":"working","ttl":60000}}`), Revision: wire.Rev20251125}, nil
	case id == u.unknown:
		return call.Result{}, &wire.Error{Code: wire.CodeInvalidParams, Message: "no such task", Raw: wire.Raw(`{"code":-32602,"message":"no such task"}`)}
	}
	if c.Method == wire.MethodTasksGet {
		c.Back.Notify(wire.NoteTaskStatus, wire.Raw(`{"taskId":"`+id+`","status":"working"}`))
	}
	return call.Result{Raw: wire.Raw(`{"taskId":"` + id + `","status":"working"}`), Revision: wire.Rev20251125}, nil
}

func (u *taskUpstreams) DoTask(ctx context.Context, replica string, c *call.Call) (call.Result, error) {
	u.holders = append(u.holders, replica)
	return u.Do(ctx, c)
}

// The contract of the book of tasks holds for one router, and for two replicas that share a store.
func TestBookOfTasks(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			u := &taskUpstreams{}
			routerOf := func() *Router {
				src := &tasksUpstream{revision: wire.Rev20251125}
				r := routerWithTasks(t, src, legacyTasks, anyTool)
				routes := *r.Routes()
				routes.Upstreams = map[string]Upstream{"files": u}
				r.Swap(&routes)
				return r
			}
			a := routerOf()
			b := a
			if shared {
				var m storetest.Memory
				b = routerOf()
				b.sealer = a.sealer
				for name, r := range map[string]*Router{"a": a, "b": b} {
					r.book, r.tasks.timed = sharedtasks.New(&m, name), true
				}
			}
			begin := func(r *Router, who string) string {
				t.Helper()
				created := ask(t, r, wire.Rev20251125, `{}`, who, "tools/call", `{"name":"files__read","task":{}}`)
				id := wire.ValueOf(wire.Raw(created)).Get("task", "taskId").Str()
				if id == "" {
					t.Fatal(created)
				}
				return id
			}
			list := func(r *Router, who, cursor string) (ids []string, next string) {
				t.Helper()
				page := wire.ValueOf(wire.Raw(ask(t, r, wire.Rev20251125, `{}`, who, "tasks/list", cursor)))
				for task := range page.Get("tasks").Elements() {
					ids = append(ids, task.Get("taskId").Str())
				}
				return ids, page.Get("nextCursor").Str()
			}
			one, two, three := begin(a, "ann"), begin(b, "ann"), begin(a, "ann")
			for _, r := range []*Router{a, b} {
				if got, next := list(r, "ann", `{}`); strings.Join(got, " ") != strings.Join([]string{one, two, three}, " ") || next != "" {
					t.Errorf("ann has %q and %q", got, next)
				}
				if got, _ := list(r, "bob", `{}`); len(got) > 0 {
					t.Errorf("bob has %q", got)
				}
				if got := ask(t, r, wire.Rev20251125, `{}`, "bob", "tasks/get", `{"taskId":"`+one+`"}`); got != errNoTask.Error() {
					t.Errorf("bob gets %s", got)
				}
				got := callOf(wire.Rev20251125, `{}`, `{"taskId":"`+one+`"}`, &recorder{})
				back := &recorder{}
				got.Method, got.Back, got.Principal = "tasks/get", back, &call.Principal{Subject: "ann", AuthMethod: "jwt"}
				res, err := r.Handle(t.Context(), got)
				if err != nil || !wire.ValueOf(res.Raw).Get("taskId").IsString(one) || len(back.notes) != 1 || !strings.Contains(back.notes[0], one) {
					t.Errorf("tasks/get: %s, %v; messages %q", res.Raw, err, back.notes)
				}
			}
			u.unknown = "n2"
			ask(t, a, wire.Rev20251125, `{}`, "ann", "tasks/get", `{"taskId":"`+two+`"}`)
			u.unknown = ""
			for range taskPage {
				begin(a, "ann")
			}
			first, cursor := list(b, "ann", `{}`)
			rest, next := list(a, "ann", `{"cursor":"`+cursor+`"}`)
			if len(first) != taskPage || len(rest) != 2 || next != "" || first[1] != three {
				t.Errorf("pages of %d and %d tasks, and %q; the second task is dropped: %t", len(first), len(rest), next, first[1] == three)
			}
			if u.holders != nil && !shared || shared && (u.holders[0] != "a" || u.holders[1] != "b") {
				t.Errorf("asked of %q", u.holders)
			}
		})
	}
}

// While the book cannot be read, a list has the tasks of this replica.
func TestBookOfTasksAway(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/get": `{"taskId":"n1","status":"working"}`,
	}}
	r := routerWithTasks(t, u, legacyTasks, anyTool)
	r.book, r.tasks.timed = noBook{}, true
	ask(t, r, wire.Rev20251125, `{}`, "ann", "tools/call", `{"name":"files__read","task":{}}`)
	if got := ask(t, r, wire.Rev20251125, `{}`, "ann", "tasks/list", `{}`); !strings.Contains(got, `"status":"working"`) {
		t.Errorf("got %s", got)
	}
}

// noBook is a TaskBook whose store is away.
type noBook struct{}

func (noBook) Replica() string                                                            { return "r" }
func (noBook) Add(context.Context, *call.Principal, string, string, int64, time.Duration) {}
func (noBook) Remove(context.Context, *call.Principal, string)                            {}
func (noBook) Of(context.Context, *call.Principal, int64) (seqs []int64, ids []string, err error) {
	return nil, nil, store.ErrUnavailable
}

// Tasks with one number are never on two pages.
func TestPageOfTasks(t *testing.T) {
	tasks := make([]knownTask, taskPage+5)
	for i := range tasks {
		tasks[i].seq = int64(min(i, taskPage-2))
	}
	if got := len(pageOf(tasks)); got != len(tasks) {
		t.Errorf("a page of %d tasks", got)
	}
	tasks[taskPage].seq++
	if got := len(pageOf(tasks)); got != taskPage {
		t.Errorf("a page of %d tasks", got)
	}
	if got := len(pageOf(nil)); got != 0 {
		t.Errorf("a page of %d tasks", got)
	}
}

// The id of a task says where it began, if there are others.
func TestReplicaInTaskIDs(t *testing.T) {
	s, who := bridge.NewSealer(), &call.Principal{Subject: "ann"}
	for _, replica := range []string{"", "r1"} {
		want := bridge.TaskRef{Upstream: "u", Native: "n", Form: wire.EraLegacy, Replica: replica}
		if got, err := s.OpenTask(s.SealTask(want, who), who); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}
