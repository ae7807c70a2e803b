package router

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// watched is a router with a task of a principal.
type watched struct {
	*Router
	up   *tasksUpstream
	call *call.Call
	id   string
}

func watchedTask(t *testing.T) *watched {
	t.Helper()
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
		"tools/call": `{"resultType":"task","taskId":"n1"}`, "tasks/get": `{"taskId":"n1","status":"working","pollIntervalMs":1000}`,
	}}
	w := &watched{Router: routerWithTasks(t, u, modernTasks, anyTool), up: u}
	w.call, w.id = w.begin(t, "ann", 1)
	return w
}

// begin creates a task of a principal with a share key.
func (w *watched) begin(t *testing.T, who string, share uint64) (*call.Call, string) {
	t.Helper()
	created := ask(t, w.Router, wire.Rev20260728, tasksDeclared, who, "tools/call", `{"name":"files__read"}`)
	c := callOf(wire.Rev20260728, tasksDeclared, `{}`, &recorder{})
	c.Principal, c.ShareKey = &call.Principal{Subject: who, AuthMethod: "jwt"}, share
	return c, wire.ValueOf(wire.Raw(created)).Get("taskId").Str()
}

func (w *watched) pollCount() int {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	n := 0
	for _, sent := range w.up.sent {
		if strings.Contains(sent, `"taskId"`) {
			n++
		}
	}
	return n
}

// All watches of a task share one poll. A watch that joins later gets the present state of
// the task at once.
func TestOnePollForAllWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchedTask(t)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		statuses := map[int][]string{}
		watch := func(ctx context.Context, n int) {
			if !w.WatchTask(ctx, w.call, w.id, func(params wire.Raw) bool {
				mu.Lock()
				defer mu.Unlock()
				statuses[n] = append(statuses[n], wire.ValueOf(params).Get("status").Str())
				return true
			}) {
				t.Fatal("the task is not known")
			}
		}
		for n := range 20 {
			watch(ctx, n)
		}
		time.Sleep(9500 * time.Millisecond) // in the bubble
		synctest.Wait()
		if n := w.pollCount(); n != 10 {
			t.Errorf("the upstream was asked %d times in 10 s, want once a second", n)
		}
		watch(t.Context(), 20)
		synctest.Wait()
		if n := w.pollCount(); n != 10 || fmt.Sprint(statuses[20]) != "[working]" {
			t.Errorf("a later watch got %q, after %d requests", statuses[20], n)
		}
		cancel()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := w.pollCount(); n != 12 {
			t.Errorf("with one watch left, the upstream was asked %d times", n)
		}
		w.up.mu.Lock()
		w.up.answers["tasks/get"] = `{"taskId":"n1","status":"completed","result":{"content":[]}}`
		w.up.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(statuses[20]); got != "[working completed]" || w.pollCount() != 13 {
			t.Errorf("the last watch got %s, after %d requests", got, w.pollCount())
		}
		if got := fmt.Sprint(statuses[0]); got != "[working]" {
			t.Errorf("an ended watch got %s", got)
		}
		if n := w.polls.budget.Held(); n != 0 || len(w.polls.polls) != 0 {
			t.Errorf("%d watches and %d polls are left", n, len(w.polls.polls))
		}
	})
}

// Watches are bounded, and one client cannot take all of them.
func TestTaskWatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchedTask(t)
		ctx, cancel := context.WithCancel(t.Context())
		take := func(c *call.Call, id string) int {
			n := 0
			for n <= maxTaskWatches && w.WatchTask(ctx, c, id, func(wire.Raw) bool { return true }) {
				n++
			}
			return n
		}
		ann := take(w.call, w.id)
		bob := take(w.begin(t, "bob", 2))
		if ann != maxTaskWatches/2 || bob != maxTaskWatches/4 {
			t.Errorf("one client has %d watches, the next %d of %d", ann, bob, maxTaskWatches)
		}
		synctest.Wait()
		if n := len(w.polls.polls); n != 2 {
			t.Errorf("two tasks have %d polls", n)
		}
		cancel()
		synctest.Wait()
		if n := w.polls.budget.Held(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
		if !w.WatchTask(t.Context(), w.call, w.id, func(wire.Raw) bool { return true }) {
			t.Error("no watch is free after all have ended")
		}
		w.up.mu.Lock()
		w.up.answers["tasks/get"] = `-32602!gone`
		w.up.mu.Unlock()
		time.Sleep(time.Minute)
	})
}
