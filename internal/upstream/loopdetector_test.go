package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

func trail(t *testing.T, started string) *LoopDetector {
	t.Helper()
	tr, err := NewLoopDetector(started)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestTrail(t *testing.T) {
	a, b, c := trail(t, ""), trail(t, ""), trail(t, "")
	if a.Sent() == b.Sent() || len(a.Sent()) < 20 {
		t.Fatalf("the ids %s and %s can be guessed", a.Sent(), b.Sent())
	}
	if !a.Returns(a.Sent()) || !a.Returns("x, "+a.Sent()+",y") || a.Returns(b.Sent()) || a.Returns("") {
		t.Error("a gateway does not know its own requests from those of others")
	}
	// c is behind b, and b behind a.
	if err := b.check("c", c.Said()); err != nil {
		t.Fatal(err)
	}
	if err := a.check("b", b.Said()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.Said(), b.Sent()) || !strings.Contains(a.Said(), c.Sent()) || a.Sent() == a.Said() {
		t.Errorf("a says %s, want b and c behind it", a.Said())
	}
	// Now a would be behind c.
	if err := c.check("a", a.Said()); err == nil || err.Error() != reasonLoop {
		t.Errorf("error %v, want that it leads back", err)
	}
	if strings.Contains(c.Said(), a.Sent()) {
		t.Error("what leads back counts as being behind")
	}
	b.forget("c")
	if err := a.check("b", b.Said()); err != nil {
		t.Fatal(err)
	}
	if err := c.check("a", a.Said()); err != nil {
		t.Errorf("after b has left c: %v", err)
	}
}

func TestTrailOfWhoWasStarted(t *testing.T) {
	outer := trail(t, "")
	inner := trail(t, outer.Sent())
	if !outer.Returns(inner.Sent()) {
		t.Error("the outer gateway does not know itself in a request of one that it started")
	}
	if err := outer.check("inner", inner.Said()); err != nil {
		t.Errorf("the outer gateway refuses one that it started: %v", err)
	}
	if inner.Returns(outer.Sent()) {
		t.Error("the inner gateway refuses its client")
	}
	if err := inner.check("back", outer.Said()); err == nil || err.Error() != reasonLoop {
		t.Errorf("error %v, want that it leads back", err)
	}
	for range maxStarts - 2 {
		inner = trail(t, inner.Sent())
	}
	if _, err := NewLoopDetector(inner.Sent()); err == nil {
		t.Errorf("more than %d gateways may start one another", maxStarts)
	}
}

func TestTrailIsBounded(t *testing.T) {
	a := trail(t, "")
	if err := a.check("many", strings.Repeat("x,", 10*maxVia)); err == nil || !strings.Contains(err.Error(), "more than 64 gateways") {
		t.Errorf("error %v", err)
	}
	if err := a.check("odd", "a b,\x00,"+strings.Repeat("y", maxID+1)+",good"); err != nil {
		t.Fatal(err)
	}
	if got, want := a.Said(), a.Sent()+",good"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	var none *LoopDetector
	none.forget("x")
	if err := none.check("x", "y"); err != nil || none.Sent() != "" {
		t.Errorf("no trail says %q, %v", none.Sent(), err)
	}
}

// Who is behind an upstream is known for as long as the session with it that
// gathers its lists lasts, whatever becomes of those of clients.
func TestTrailOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, behind := trail(t, ""), trail(t, "")
		answer := counts()
		h := keep(t, func(l *fakeLife, m wire.Message) {
			if m.Method == wire.MethodInitialize {
				l.result(m, string(wire.SetMember(wire.Raw(legacyHello), "_meta", wire.Raw(`{"`+protocol.MetaVia+`":"`+behind.Sent()+`"}`))))
				return
			}
			answer(l, m)
		}, func(o *Options) { o.LoopDetector = tr })
		h.call(t.Context(), by("ann", `{}`, &peer{}))
		h.s.life(2).quit()
		synctest.Wait()
		if !strings.Contains(tr.Said(), behind.Sent()) {
			t.Error("the end of a client's session has what is behind the upstream forgotten")
		}
		h.s.life(1).quit()
		synctest.Wait()
		if strings.Contains(tr.Said(), behind.Sent()) {
			t.Error("what is not connected any more counts as being behind")
		}
	})
}

// Nothing is known of an upstream any more once its sessions have ended, in whatever
// order they do.
func TestTrailAfterTheEnd(t *testing.T) {
	tr, behind := trail(t, ""), trail(t, "")
	s := &script{on: map[string]on{}}
	opened := 0
	s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		opened++
		w.Header().Set(wire.HeaderSession, fmt.Sprint("s", opened))
		answerJSON(w, m, legacyHello)
	}
	var sessions *Sessions
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && r.Header.Get(wire.HeaderSession) != "s1" {
			polltest.Until(t, "the first session has ended", func() bool { return sessions.Snapshot().Reason == connector.ReasonEnded })
		}
		w.Header().Set(protocol.HeaderVia, behind.Sent())
		s.ServeHTTP(w, r)
	})
	sessions = NewSessions(*testOptions(t, serve(t, h).URL, func(o *Options) { o.Era, o.Sharing, o.LoopDetector = wire.EraLegacy, PerClient, tr }))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- sessions.Run(ctx) }()
	if got := (&house{Sessions: sessions}).call(t.Context(), by("ann", `{}`, &peer{})); got != doneResult {
		t.Errorf("the call: %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(tr.Said(), behind.Sent()) {
		t.Error("what is not connected any more counts as being behind")
	}
}
