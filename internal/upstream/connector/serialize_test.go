package connector

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// One call runs at a time. Asks belong to the running call, and it keeps its turn
// while its client is asked.
func TestSerialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			switch m.Method {
			case wire.MethodTasksGet:
				l.Result(m, `{"status":"working"}`)
			case wire.MethodToolsCall:
				l.Line(`{"jsonrpc":"2.0","id":"ask-%s","method":"elicitation/create","params":{"message":"?"}}`, m.ID)
			}
		})}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Serialize: true, Limits: Limits{MaxQueue: 1, Timeout: time.Minute}}})
		r.watch.wait(t, isReady)
		asked, answer := make(chan string, 2), make(chan string)
		client := func(key string) *upstreamtest.Peer {
			return &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
				asked <- key
				return wire.Raw(<-answer), nil
			}}
		}
		ann := r.doing(t.Context(), upstreamtest.ToolCall("echo", "ann", client("ann")))
		if got := <-asked; got != "ann" {
			t.Fatalf("%s was asked", got)
		}
		bob := r.doing(t.Context(), upstreamtest.ToolCall("echo", "bob", client("bob")))
		synctest.Wait()
		if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "eve", &upstreamtest.Peer{}))); !strings.Contains(got, "overloaded: 1 call runs (the server gets one call at a time) and 1 waits") {
			t.Errorf("a third call: %s", got)
		}
		taskRead := upstreamtest.ToolCall("", "eve", &upstreamtest.Peer{})
		taskRead.Method, taskRead.Params = wire.MethodTasksGet, wire.Raw(`{"taskId":"t"}`)
		if got := upstreamtest.Outcome(r.Do(t.Context(), taskRead)); got != `{"status":"working"}` {
			t.Errorf("tasks/get: %s", got)
		}
		for _, key := range []string{"ann", "bob"} {
			if key == "bob" {
				if got := <-asked; got != "bob" {
					t.Fatalf("%s was asked", got)
				}
			}
			answer <- `{"action":"accept"}`
			l := s.Instance(1)
			m := l.Wait(t, func(m wire.Message) bool { return m.Method == wire.MethodToolsCall && !l.Answered(m.ID) })
			l.Finish(m)
		}
		for who, done := range map[string]<-chan string{"ann": ann, "bob": bob} {
			if got := <-done; got != `{"ok":1}` {
				t.Errorf("%s got %s", who, got)
			}
		}
	})
}

// A call that waits too long for its turn fails with the reason.
func TestSerializeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Serialize: true, Limits: Limits{Timeout: time.Minute}}})
		r.watch.wait(t, isReady)
		first := r.doing(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{OnAsk: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}))
		synctest.Wait()
		s.Instance(1).Line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
		synctest.Wait()
		got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "bob", &upstreamtest.Peer{})))
		if !strings.Contains(got, "the server gets one call at a time, and those before this one took longer than 1m0s") {
			t.Errorf("got %s", got)
		}
		s.Instance(1).Finish(s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall)))
		if got := <-first; got != `{"ok":1}` {
			t.Errorf("the first call: %s", got)
		}
	})
}
