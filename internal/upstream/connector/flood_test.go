package connector

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// A flood of progress and log messages of one call is cut; a burst passes. Progress that is
// cut restarts the time of silence all the same.
func TestFloodOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := &upstreamtest.Peer{}
		c := New(Options{Name: "files"})
		g := newCallGuard(t.Context(), &call.Call{Back: back, LogLevel: wire.LevelDebug}, time.Minute, time.Hour)
		g.c = c
		defer g.close()
		for range callNotesBurst {
			g.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":1,"progress":1}`))
		}
		upstreamtest.Equal(t, "notifications of a burst", len(back.Got()), callNotesBurst)
		time.Sleep(50 * time.Second)
		for range 100_000 {
			g.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":1,"progress":1}`))
			g.Notify(wire.NoteMessage, wire.Raw(`{"level":"info"}`))
		}
		upstreamtest.Equal(t, "notifications of a flood", len(back.Got()), 2*callNotesBurst)
		time.Sleep(50 * time.Second)
		if g.Err() != nil {
			t.Errorf("the call ended although there was progress: %v", g.Err())
		}
		for _, kind := range []string{excessProgress, excessLog} {
			if n := testutil.ToFloat64(c.o.Metrics.excess.WithLabelValues("files", kind)); n < 99_000 {
				t.Errorf("%v of kind %s are counted", n, kind)
			}
		}
	})
}

// A flood of notifications outside of calls reaches clients at a bounded rate. The last
// change of each resource and list is reported in the end; log messages are dropped.
func TestFloodOutsideOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uris = 500
		core, logs := observer.New(zap.InfoLevel)
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Role: OnlyCalls, Logger: zap.New(core)}})
		r.doTool(t.Context(), "echo")
		for i := range 100_000 {
			r.notes.notified(wire.NoteMessage, wire.Raw(`{"level":"info","data":1}`))
			r.notes.notified(wire.NoteResourceUpdated, wire.Raw(fmt.Sprintf(`{"uri":"file:///%d"}`, i%uris)))
			r.notes.notified("notifications/tools/list_changed", nil)
		}
		counts := func() map[string]int {
			out := map[string]int{}
			for _, n := range r.watch.noted() {
				method, _, _ := strings.Cut(n, " ")
				out[method]++
			}
			return out
		}
		got := counts()
		if logs, rest := got[wire.NoteMessage], got[wire.NoteResourceUpdated]+got["notifications/tools/list_changed"]; logs != logsBurst || rest != notesBurst {
			t.Errorf("at once: %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		after := counts()
		if updates := after[wire.NoteResourceUpdated] - got[wire.NoteResourceUpdated]; updates != uris {
			t.Errorf("%d updates afterwards, want one for each of %d", updates, uris)
		}
		upstreamtest.Equal(t, "changes of the list afterwards", after["notifications/tools/list_changed"]-got["notifications/tools/list_changed"], 1)
		for _, kind := range []string{excessLog, excessUpdated, excessLists} {
			lines := logs.FilterMessage("the server sends more messages than are passed on").FilterField(zap.String("kind", kind))
			upstreamtest.Equal(t, "log lines about "+kind, lines.Len(), 1)
		}
		upstreamtest.Equal(t, "waiting", r.notes.count(), 0)
	})
}

// The updates that wait are bounded. If an update found no room, every subscribed resource
// counts as updated when the flood is over.
func TestFloodOfManyResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Role: OnlyCalls}})
		r.doTool(t.Context(), "echo")
		r.update(func(s *state) {
			answered := make(chan struct{})
			close(answered)
			s.subscriptions["file:///mine"] = &resourceSubscription{subscribers: 1, answered: answered}
		})
		for i := range 100_000 {
			r.notes.notified(wire.NoteResourceUpdated, wire.Raw(fmt.Sprintf(`{"uri":"file:///%d"}`, i)))
		}
		r.notes.notified(wire.NoteResourceUpdated, wire.Raw(`{"uri":"file:///mine"}`))
		upstreamtest.Equal(t, "waiting", r.notes.count(), maxWaitingNotes)
		time.Sleep(time.Minute)
		synctest.Wait()
		mine := 0
		for _, n := range r.watch.noted() {
			if strings.Contains(n, "file:///mine") {
				mine++
			}
		}
		upstreamtest.Equal(t, "updates of the subscribed resource", mine, 1)
	})
}

// Lists that change all the time are gathered about once a second, and the last change is
// not lost.
func TestFloodOfListChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: s.Pipe})
		r.watch.wait(t, isReady)
		const seconds = 30
		for range seconds * 100 {
			notificationSink{r.Connector}.Notified("notifications/tools/list_changed", nil)
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := r.Snapshot().Changes.Tools; n < 10 || n > listsBurst+seconds+1 {
			t.Errorf("%d changes in %d seconds", n, seconds)
		}
		last := r.Snapshot().Changes.Tools
		notificationSink{r.Connector}.Notified("notifications/tools/list_changed", nil)
		time.Sleep(2 * time.Second)
		if r.Snapshot().Changes.Tools != last+1 {
			t.Error("the last change was lost")
		}
	})
}

// count returns how many notifications wait.
func (n *noteLimiter) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}
