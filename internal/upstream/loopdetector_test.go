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
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// newDetector returns a loop detector that was started with the given variable.
func newDetector(t *testing.T, started string) *LoopDetector {
	t.Helper()
	tr, err := NewLoopDetector(started)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestLoopDetector(t *testing.T) {
	a, b, c := newDetector(t, ""), newDetector(t, ""), newDetector(t, "")
	if a.Sent() == b.Sent() || len(a.Sent()) < 20 {
		t.Fatalf("the ids %s and %s can be guessed", a.Sent(), b.Sent())
	}
	if !a.Returns(a.Sent()) || !a.Returns("x, "+a.Sent()+",y") || a.Returns(b.Sent()) || a.Returns("") {
		t.Error("the detector does not distinguish its own requests from others")
	}
	// c is behind b, and b behind a.
	if err := b.check("c", c.Said()); err != nil {
		t.Fatal(err)
	}
	if err := a.check("b", b.Said()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.Said(), b.Sent()) || !strings.Contains(a.Said(), c.Sent()) || a.Sent() == a.Said() {
		t.Errorf("a has %s, want b and c behind it", a.Said())
	}
	// This would put a behind c.
	if err := c.check("a", a.Said()); err == nil || err.Error() != reasonLoop {
		t.Errorf("error %v, want a loop", err)
	}
	if strings.Contains(c.Said(), a.Sent()) {
		t.Error("a refused upstream counts as behind the gateway")
	}
	b.forget("c")
	if err := a.check("b", b.Said()); err != nil {
		t.Fatal(err)
	}
	if err := c.check("a", a.Said()); err != nil {
		t.Errorf("after b has left c: %v", err)
	}
}

func TestLoopDetectorOfStartedGateways(t *testing.T) {
	outer := newDetector(t, "")
	inner := newDetector(t, outer.Sent())
	if !outer.Returns(inner.Sent()) {
		t.Error("the outer gateway does not detect a loop in a request of a gateway that it started")
	}
	if err := outer.check("inner", inner.Said()); err != nil {
		t.Errorf("the outer gateway refuses a gateway that it started: %v", err)
	}
	if inner.Returns(outer.Sent()) {
		t.Error("the inner gateway refuses its client")
	}
	if err := inner.check("back", outer.Said()); err == nil || err.Error() != reasonLoop {
		t.Errorf("error %v, want a loop", err)
	}
	for range maxStarts - 2 {
		inner = newDetector(t, inner.Sent())
	}
	if _, err := NewLoopDetector(inner.Sent()); err == nil {
		t.Errorf("more than %d gateways may start one another", maxStarts)
	}
}

func TestLoopDetectorIsBounded(t *testing.T) {
	a := newDetector(t, "")
	if err := a.check("many", strings.Repeat("x,", 10*maxVia)); err == nil || !strings.Contains(err.Error(), "more than 64 gateways") {
		t.Errorf("error %v", err)
	}
	if err := a.check("odd", "a b,\x00,"+strings.Repeat("y", maxID+1)+",good"); err != nil {
		t.Fatal(err)
	}
	if got, want := a.Said(), a.Sent()+",good"; got != want {
		t.Errorf("Said returned %q, want %q", got, want)
	}
	var none *LoopDetector
	none.forget("x")
	if err := none.check("x", "y"); err != nil || none.Sent() != "" {
		t.Errorf("a nil detector returned %q, %v", none.Sent(), err)
	}
}

// The detector knows the gateways behind an upstream while the catalog session
// lasts, independent of the clients' sessions.
func TestLoopDetectorOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, behind := newDetector(t, ""), newDetector(t, "")
		answer := countCalls()
		h := startSessions(t, func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodInitialize {
				l.Result(m, string(wire.SetMember(wire.Raw(upstreamtest.LegacyHello), "_meta", wire.Raw(`{"`+protocol.MetaVia+`":"`+behind.Sent()+`"}`))))
				return
			}
			answer(l, m)
		}, func(o *Options) { o.LoopDetector = tr })
		h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{}))
		h.s.Instance(2).Quit()
		synctest.Wait()
		if !strings.Contains(tr.Said(), behind.Sent()) {
			t.Error("the end of a client's session removed the entry of the upstream")
		}
		h.s.Instance(1).Quit()
		synctest.Wait()
		if strings.Contains(tr.Said(), behind.Sent()) {
			t.Error("a disconnected upstream still counts as behind the gateway")
		}
	})
}

// The detector forgets an upstream once all sessions have ended, in any order.
func TestLoopDetectorAfterSessionsEnd(t *testing.T) {
	tr, behind := newDetector(t, ""), newDetector(t, "")
	s := &script{on: map[string]on{}}
	opened := 0
	s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		opened++
		w.Header().Set(wire.HeaderSession, fmt.Sprint("s", opened))
		answerJSON(w, m, upstreamtest.LegacyHello)
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
	if got := (&sessionsRig{Sessions: sessions}).call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{})); got != doneResult {
		t.Errorf("the call: %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(tr.Said(), behind.Sent()) {
		t.Error("a disconnected upstream still counts as behind the gateway")
	}
}
