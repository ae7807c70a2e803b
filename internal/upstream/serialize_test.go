package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/wire"
)

// One call at a time: a question belongs to the one that runs, which keeps its
// turn while its client is asked.
func TestSerialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{handle: legacy(func(l *fakeLife, m wire.Message) {
			switch m.Method {
			case wire.MethodTasksGet:
				l.result(m, `{"status":"working"}`)
			case wire.MethodToolsCall:
				l.line(`{"jsonrpc":"2.0","id":"ask-%s","method":"elicitation/create","params":{"message":"?"}}`, m.ID)
			}
		})}
		r := start(t, Options{Pipe: s.pipe, Serialize: true, MaxQueue: 1, Timeout: time.Minute})
		r.watch.wait(t, isReady)
		asked, answer := make(chan string, 2), make(chan string)
		client := func(key string) *peer {
			return &peer{ask: func(context.Context, string, wire.Raw) (wire.Raw, error) {
				asked <- key
				return wire.Raw(<-answer), nil
			}}
		}
		ann := r.doing(t.Context(), toolCall("echo", "ann", client("ann")))
		if got := <-asked; got != "ann" {
			t.Fatalf("%s was asked", got)
		}
		bob := r.doing(t.Context(), toolCall("echo", "bob", client("bob")))
		synctest.Wait()
		if got := outcomeOf(r.Do(t.Context(), toolCall("echo", "eve", &peer{}))); !strings.Contains(got, "overloaded: 1 calls run and 1 wait") {
			t.Errorf("a third call: %s", got)
		}
		look := toolCall("", "eve", &peer{})
		look.Method, look.Params = wire.MethodTasksGet, wire.Raw(`{"taskId":"t"}`)
		if got := outcomeOf(r.Do(t.Context(), look)); got != `{"status":"working"}` {
			t.Errorf("a look at a task: %s", got)
		}
		for _, key := range []string{"ann", "bob"} {
			if key == "bob" {
				if got := <-asked; got != "bob" {
					t.Fatalf("%s was asked", got)
				}
			}
			answer <- `{"action":"accept"}`
			l := s.life(1)
			m := l.wait(t, func(m wire.Message) bool { return m.Method == wire.MethodToolsCall && !l.answered[m.ID] })
			l.finish(m)
		}
		for who, done := range map[string]<-chan string{"ann": ann, "bob": bob} {
			if got := <-done; got != `{"ok":1}` {
				t.Errorf("%s got %s", who, got)
			}
		}
	})
}

// Who waits too long for the turn learns why.
func TestSerializeLosesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{handle: legacy(nil)}
		r := start(t, Options{Pipe: s.pipe, Serialize: true, Timeout: time.Minute})
		r.watch.wait(t, isReady)
		first := r.doing(t.Context(), toolCall("echo", "ann", &peer{ask: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}))
		synctest.Wait()
		s.life(1).line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
		synctest.Wait()
		got := outcomeOf(r.Do(t.Context(), toolCall("echo", "bob", &peer{})))
		if !strings.Contains(got, "the server gets one call at a time, and the one that runs took longer than 1m0s") {
			t.Errorf("got %s", got)
		}
		s.life(1).finish(s.life(1).wait(t, method(wire.MethodToolsCall)))
		if got := <-first; got != `{"ok":1}` {
			t.Errorf("the first call: %s", got)
		}
	})
}

// finish answers a request.
func (l *fakeLife) finish(m wire.Message) {
	l.mu.Lock()
	if l.answered == nil {
		l.answered = make(map[wire.ID]bool)
	}
	l.answered[m.ID] = true
	l.mu.Unlock()
	l.result(m, `{"ok":1}`)
}
