package router

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

func TestWatchTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{"tools/call": `{"resultType":"task","taskId":"n1"}`}}
		r := routerWithTasks(t, u, modernTasks, anyTool)
		created := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
		id := wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
		c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
		c.Principal = &call.Principal{Subject: "ann", AuthMethod: "jwt"}
		set := func(answer string) {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.answers["tasks/get"] = answer
		}
		const head = `"taskId":"n1","pollIntervalMs":1000,`
		set(`{"resultType":"complete",` + head + `"status":"working"}`)
		var mu sync.Mutex
		var statuses []string
		ready := false
		deliver := func(params wire.Raw) bool {
			mu.Lock()
			defer mu.Unlock()
			if ready {
				statuses = append(statuses, strings.Replace(string(params), id, "ID", 1))
			}
			return ready
		}
		if !r.WatchTask(t.Context(), c, id, deliver) {
			t.Fatal("the task is not known")
		}
		time.Sleep(2500 * time.Millisecond) // in the bubble; no client reads
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
		if diff := cmp.Diff(want, statuses); diff != "" {
			t.Error(diff)
		}
		asked := len(u.sent)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(u.sent) != asked {
			t.Error("an ended task was polled")
		}
		c.Principal = call.Anonymous
		if r.WatchTask(t.Context(), c, id, deliver) {
			t.Error("another principal could watch the task")
		}
	})
}

// A watch ends with its context, and when the task is gone.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
			"tools/call": `{"resultType":"task","taskId":"n1"}`, "tasks/get": `{"taskId":"n1","status":"working"}`,
		}}
		r := routerWithTasks(t, u, modernTasks, anyTool)
		created := ask(t, r, wire.Rev20260728, tasksDeclared, call.Anonymous.Subject, "tools/call", `{"name":"files__read"}`)
		id := wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
		c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
		c.Principal = &call.Principal{Subject: call.Anonymous.Subject, AuthMethod: "jwt"}
		ctx, cancel := context.WithCancel(t.Context())
		r.WatchTask(ctx, c, id, func(wire.Raw) bool { return true })
		time.Sleep(1500 * time.Millisecond)
		cancel()
		synctest.Wait() // the bubble ends with an error if the watch continues
		u.answers["tasks/get"] = `-32602!gone`
		r.WatchTask(t.Context(), c, id, func(wire.Raw) bool { return true })
		synctest.Wait()
		if n := len(u.sent); n != 4 {
			t.Errorf("the upstream got %d requests, want the call and three polls: %q", n, u.sent)
		}
	})
}

// A client that may no longer see the tool gets no further notifications of its task.
func TestWatchFollowsPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
			"tools/call": `{"resultType":"task","taskId":"n1"}`, "tasks/get": `{"taskId":"n1","status":"working"}`,
		}}
		r := routerWithTasks(t, u, modernTasks, anyTool)
		created := ask(t, r, wire.Rev20260728, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
		c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
		c.Principal = &call.Principal{Subject: "ann", AuthMethod: "jwt"}
		var statuses []string // written by one goroutine, which is durably blocked during the read
		if !r.WatchTask(t.Context(), c, wire.ValueOf(wire.Raw(created)).Get("taskId").Str(), func(params wire.Raw) bool {
			statuses = append(statuses, wire.ValueOf(params).Get("status").Str())
			return true
		}) {
			t.Fatal("the task is not known")
		}
		synctest.Wait()
		routes := *r.Routes()
		src := source(t, "files", nil)
		src.Revision, src.Capabilities = u.revision, wire.Raw(modernTasks)
		src.Items[call.Tool] = []wire.Raw{wire.Raw(anyTool)}
		routes.Table = catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{Default: policy.Deny})}, []catalog.Source{src})
		r.Swap(&routes)
		u.mu.Lock()
		u.answers["tasks/get"] = `{"taskId":"n1","status":"completed","result":{"content":[]}}`
		u.mu.Unlock()
		time.Sleep(time.Minute) // in the bubble
		synctest.Wait()
		if len(statuses) != 1 || statuses[0] != "working" {
			t.Errorf("the client got the status %q", statuses)
		}
	})
}
