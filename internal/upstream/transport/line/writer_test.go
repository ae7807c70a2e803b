package line

import (
	"io"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Notifications to a child that does not read use a bounded amount of memory. A
// cancellation can still be queued behind a large request.
func TestNotificationsToAStuckChildAreBounded(t *testing.T) {
	r, stuck := io.Pipe() // has no reader
	w := newWriter(stuck)
	done := make(chan error)
	go func() { done <- w.run() }()
	defer func() {
		w.close()
		r.Close()
		<-done
	}()
	pending := protocol.NewPendingCalls()
	f, _ := pending.Begin(&call.Call{Method: wire.MethodToolsCall, Back: protocol.NoClient{}})
	large := wire.Raw(`{"text":"` + strings.Repeat("x", 2*MaxPending) + `"}`)
	if err := w.request(t.Context(), f, &wire.Message{ID: f.ID, Method: wire.MethodToolsCall, Params: large}); err != nil {
		t.Fatal(err)
	}
	note := &wire.Message{Method: wire.NoteCancelled, Params: wire.Raw(`{"requestId":1}`)}
	long := &wire.Message{Method: wire.NoteCancelled, Params: wire.Raw(`{"requestId":9007199254740991}`)}
	for i := range protocol.MaxWaitingTasks { // as many as may wait over HTTP
		if !w.post(long) {
			t.Fatalf("the cancellation of call %d behind a large request was dropped", i)
		}
	}
	for range 100_000 {
		w.post(note)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got, most := len(w.pending), len(large)+maxNotificationBytes+1<<10; got > most {
		t.Errorf("%d bytes are queued, want at most %d", got, most)
	}
}
