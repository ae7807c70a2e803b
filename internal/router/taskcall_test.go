package router

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// A client that does not support tasks gets the result. The declaration to the upstream depends
// on the client's revision.
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
			"a member with the same name in another revision", legacyTasks, anyTool, wire.Rev20250618, `{}`, `{"task":{},"name":"files__read"}`,
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
			"an unsolicited task", modernTasks, anyTool, wire.Rev20251125, `{}`, `{"name":"files__read"}`, modern,
			`tools/call {"name":"read"}`, link,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &tasksUpstream{revision: wire.Rev20251125, answers: tc.answers}
				if tc.caps == modernTasks {
					u.revision = wire.Rev20260728
				}
				r := routerWithTasks(t, u, tc.caps, tc.tool)
				if got := ask(t, r, tc.revision, tc.client, "ann", "tools/call", tc.params); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if u.sent[0] != tc.sent {
					t.Errorf("the upstream got %s, want %s", u.sent[0], tc.sent)
				}
				if own := r.tasks.ofPrincipal(&call.Principal{Subject: "ann", AuthMethod: "jwt"}, 0); len(own) > 0 {
					t.Errorf("the gateway registered the tasks %v", own)
				}
			})
		})
	}
}

// The gateway declares the extension for a client that did not, if the upstream requires it
// and the client cannot declare it or is ready to wait.
func TestUpstreamInsistsOnTasks(t *testing.T) {
	for _, tc := range []struct {
		name     string
		revision wire.Revision
		params   string
		waits    bool
	}{
		{"a legacy client", wire.Rev20250618, `{"name":"files__read"}`, true},
		{"a modern client that asks for progress", wire.Rev20260728, `{"name":"files__read","_meta":{"progressToken":1}}`, true},
		{"a modern client that asks for no progress", wire.Rev20260728, `{"name":"files__read"}`, false},
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
				h := newTestRouter(t, u, filesSource(t))
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

// The gateway does not pass on a legacy client's declaration of an extension that its revision
// does not know.
func TestLegacyClientsDoNotDeclareTheExtension(t *testing.T) {
	u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{"tools/call": `{"content":[]}`}}
	r := routerWithTasks(t, u, modernTasks, anyTool)
	ask(t, r, wire.Rev20251125, tasksDeclared, "ann", "tools/call", `{"name":"files__read"}`)
	if diff := cmp.Diff([]string{`{"elicitation":{},"extensions":{}}`}, u.caps); diff != "" {
		t.Error(diff)
	}
}

// The status messages of a task become progress while the gateway waits for it, including
// messages from before the wait. Questions of the task outside of any call reach the client.
func TestStatusMessagesDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
			"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/get": `{"taskId":"n1","status":"working","pollInterval":60000}`,
		}}
		result := make(chan struct{})
		r := routerWithTasks(t, u, legacyTasks, taskTool)
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
		status("before", "1") // older than the previous message
		status("two", "2")
		status("three", "2")
		owner := r.TaskCall("files", "", "n1", nil)
		if owner == nil {
			t.Fatal("no call waits for the task")
		}
		if got := string(owner.Params); got != `{"_meta":{"progressToken":"p"}}` {
			t.Errorf("the stand-in has the params %s", got)
		}
		if _, err := owner.Back.Ask(t.Context(), wire.MethodElicit, wire.Raw(`{"message":"Sure?"}`)); err != nil {
			t.Error(err)
		}
		owner.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"p","progress":2}`)) // the client already got 3
		owner.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"p","progress":3.5}`))
		status("four", "4") // dropped: the upstream sends progress itself
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
			t.Error("a wait was not removed")
		}
	})
}

// A client that cancels while its task runs cancels the task.
func TestCancelledWaitCancelsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &tasksUpstream{revision: wire.Rev20260728, answers: map[string]string{
			"tools/call": `{"resultType":"task","taskId":"n1","status":"working"}`, "tasks/get": `{"status":"working","pollIntervalMs":1000}`, "tasks/cancel": `{}`,
		}}
		r := routerWithTasks(t, u, modernTasks, anyTool)
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

// A task may end like a call with URLs that the user has to open first.
func TestTaskEndsWithURLs(t *testing.T) {
	fault := `{"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","message":"Go","url":"https://x","elicitationId":"1"}]}}`
	u := func(method string) *fakeUpstream {
		return &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
			res := call.Result{Raw: wire.Raw(`{"task":{"taskId":"n1","status":"working"}}`), Revision: wire.Rev20251125}
			switch c.Method {
			case wire.MethodTasksGet:
				res.Raw = wire.Raw(`{"taskId":"n1","status":"failed"}`)
			case method:
				return call.Result{}, &wire.Error{Code: -32042, Message: "open", Data: wire.ValueOf(wire.Raw(fault)).Get("data").Raw(), Raw: wire.Raw(fault)}
			}
			return res, nil
		}}
	}
	src := filesSource(t)
	src.Capabilities = wire.Raw(legacyTasks)
	src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(taskTool))
	t.Run("waited for, modern client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newTestRouter(t, u(wire.MethodTasksResult), src)
			res, err := h.Handle(t.Context(), callOf(wire.Rev20260728, allCaps, `{"name":"files__job"}`, &recorder{}))
			if url := wire.ValueOf(res.Raw).Get("inputRequests", "url-1", "params", "url").Str(); err != nil || url != "https://x" {
				t.Errorf("got %s, %v; want the question", res.Raw, err)
			}
		})
	})
	t.Run("carried, legacy client", func(t *testing.T) {
		h := newTestRouter(t, u(wire.MethodTasksResult), src)
		created, err := h.Handle(t.Context(), callOf(wire.Rev20251125, allCaps, `{"name":"files__job","task":{}}`, &recorder{}))
		if err != nil {
			t.Fatal(err)
		}
		c := callOf(wire.Rev20251125, allCaps, `{"taskId":"`+wire.ValueOf(created.Raw).Get("task", "taskId").Str()+`"}`, &recorder{})
		c.Method = wire.MethodTasksResult
		_, err = h.Handle(t.Context(), c)
		rpc := wantFault(t, err, -32042)
		key, note, ok := h.ElicitationCompleted("files", "", wire.Raw(`{"elicitationId":"1"}`))
		if own := wire.ValueOf(note).Get("elicitationId").Str(); !ok || key != "session" || own == "1" || string(rpc.Append(nil)) != strings.NewReplacer(`"1"`, `"`+own+`"`, "Go", "files: Go").Replace(fault) {
			t.Errorf("got %s; completed for %q as %s, %v", rpc.Append(nil), key, note, ok)
		}
	})
}
