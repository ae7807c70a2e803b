package router

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// manySessions is an upstream with a session for each client, named like the client.
type manySessions struct {
	*tasksUpstream
	used   []string // by each call
	refuse *wire.Error
}

func (u *manySessions) Session(_ context.Context, c *call.Call) (string, error) {
	if u.refuse != nil {
		return "", u.refuse
	}
	return "of-" + c.Client.Key, nil
}

func (u *manySessions) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	u.used = append(u.used, c.Method+" "+c.Session)
	if c.Method == wire.MethodToolsCall && wire.ValueOf(c.Params).Get("name").IsString("read") {
		c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"mode":"url","elicitationId":"1","url":"https://x","message":"m"}`))
		return call.Result{Raw: wire.Raw(`{"content":[]}`), Revision: wire.Rev20251125}, nil
	}
	return u.tasksUpstream.Do(ctx, c)
}

func (u *manySessions) Subscribe(_ context.Context, c *call.Call, native string) (func(), error) {
	u.used = append(u.used, "subscribe "+c.Session+" "+native)
	return func() { u.used = append(u.used, "cancel "+c.Session) }, nil
}

func sessionsHouse(t *testing.T) (*Router, *manySessions) {
	t.Helper()
	u := &manySessions{tasksUpstream: &tasksUpstream{revision: wire.Rev20251125, answers: map[string]string{
		"tools/call": `{"task":{"taskId":"n1","status":"working"}}`, "tasks/get": `{"taskId":"n1","status":"working"}`,
	}}}
	src := filesSource(t)
	src.Capabilities = wire.Raw(`{"tools":{},"resources":{"subscribe":true},"tasks":{"requests":{"tools":{"call":{}}}}}`)
	src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(taskTool))
	started := make(chan struct{})
	close(started)
	p := policy.MustNew(policy.Options{Default: policy.Allow, Upstreams: map[string]policy.Upstream{"files": {}}})
	return New(Options{Started: started, Logger: zap.NewNop(), Metrics: NewMetrics()}, &Routes{
		Table:     catalog.Build(catalog.Options{Policy: p}, []catalog.Source{src}),
		Upstreams: map[string]Upstream{"files": u}, Subscribers: map[string]Subscriber{"files": u},
	}), u
}

func from(key, method, params string, back call.BackChannel) *call.Call {
	c := newCall(method, params, back)
	c.Client.Key, c.Client.Capabilities = key, wire.Raw(`{"elicitation":{"form":{},"url":{}}}`)
	return c
}

// All messages of a client go through its session, and messages in that session belong to the
// client's calls. A request for a task uses the task's session, for every client of the
// principal.
func TestMessagesUseTheSessionOfTheClient(t *testing.T) {
	r, u := sessionsHouse(t)
	handle := func(c *call.Call) string {
		t.Helper()
		res, err := r.Handle(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return string(res.Raw)
	}
	ann := &recorder{}
	handle(from("ann", wire.MethodToolsCall, `{"name":"files__read"}`, ann))
	bob := &recorder{}
	handle(from("bob", wire.MethodToolsCall, `{"name":"files__read"}`, bob))
	created := handle(from("ann", wire.MethodToolsCall, `{"name":"files__job","task":{}}`, ann))
	id := wire.ValueOf(wire.Raw(created)).Get("task", "taskId").Str()
	handle(from("bob", wire.MethodTasksGet, `{"taskId":"`+id+`"}`, bob))
	subs := NewSubscriptions(r)
	l := &listener{}
	cancel, err := subs.Subscribe(t.Context(), from("bob", wire.MethodResourcesSubscribe, `{}`, bob), "files+file:///a", l.deliver)
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"", "of-ann", "of-bob"} {
		subs.Updated("files", session, wire.Raw(`{"uri":"file:///a","in":"`+session+`"}`))
	}
	if got := strings.Join(l.take(), " "); !strings.Contains(got, `"in":"of-bob"`) || strings.Count(got, `"in"`) != 1 {
		t.Errorf("updates of %s", got)
	}
	cancel()
	want := "tools/call of-ann, tools/call of-bob, tools/call of-ann, tasks/get of-ann, subscribe of-bob file:///a, cancel of-bob"
	if got := strings.Join(u.used, ", "); got != want {
		t.Errorf("sessions used:\n%s\nwant\n%s", got, want)
	}
	// Both upstream processes count their elicitations from 1.
	for _, key := range []string{"bob", "ann"} {
		if client, _, ok := r.ElicitationCompleted("files", "of-"+key, wire.Raw(`{"elicitationId":"1"}`)); !ok || client != key {
			t.Errorf("the completion in the session of %s is for %q, %v", key, client, ok)
		}
	}
}

// An upstream without a session for a client refuses the call, and the client gets the reason.
func TestNoSession(t *testing.T) {
	r, u := sessionsHouse(t)
	u.refuse = wire.Errorf(wire.CodeInternal, "there are too many sessions")
	_, err := r.Handle(t.Context(), from("ann", wire.MethodToolsCall, `{"name":"files__read"}`, &recorder{}))
	if err != u.refuse || len(u.used) != 0 {
		t.Errorf("got %v; used %q", err, u.used)
	}
	_, err = NewSubscriptions(r).Subscribe(t.Context(), from("bob", wire.MethodResourcesSubscribe, `{}`, nil), "files+file:///a", (&listener{}).deliver)
	if err != u.refuse || len(u.used) != 0 {
		t.Errorf("subscribe: got %v; used %q", err, u.used)
	}
}
