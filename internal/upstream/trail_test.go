package upstream

import (
	"strings"
	"testing"
)

func trail(t *testing.T, started string) *Trail {
	t.Helper()
	tr, err := NewTrail(started)
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
	if err := b.met("c", c.Said()); err != nil {
		t.Fatal(err)
	}
	if err := a.met("b", b.Said()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.Said(), b.Sent()) || !strings.Contains(a.Said(), c.Sent()) || a.Sent() == a.Said() {
		t.Errorf("a says %s, want b and c behind it", a.Said())
	}
	// Now a would be behind c.
	if err := c.met("a", a.Said()); err == nil || err.Error() != reasonLoop {
		t.Errorf("error %v, want that it leads back", err)
	}
	if strings.Contains(c.Said(), a.Sent()) {
		t.Error("what leads back counts as being behind")
	}
	b.left("c")
	if err := a.met("b", b.Said()); err != nil {
		t.Fatal(err)
	}
	if err := c.met("a", a.Said()); err != nil {
		t.Errorf("after b has left c: %v", err)
	}
}

func TestTrailOfWhoWasStarted(t *testing.T) {
	outer := trail(t, "")
	inner := trail(t, outer.Sent())
	if !outer.Returns(inner.Sent()) {
		t.Error("the outer gateway does not know itself in a request of one that it started")
	}
	if err := outer.met("inner", inner.Said()); err != nil {
		t.Errorf("the outer gateway refuses one that it started: %v", err)
	}
	if inner.Returns(outer.Sent()) {
		t.Error("the inner gateway refuses its client")
	}
	if err := inner.met("back", outer.Said()); err == nil || err.Error() != reasonLoop {
		t.Errorf("error %v, want that it leads back", err)
	}
	for range maxStarts - 2 {
		inner = trail(t, inner.Sent())
	}
	if _, err := NewTrail(inner.Sent()); err == nil {
		t.Errorf("more than %d gateways may start one another", maxStarts)
	}
}

func TestTrailIsBounded(t *testing.T) {
	a := trail(t, "")
	if err := a.met("many", strings.Repeat("x,", 10*maxVia)); err == nil || !strings.Contains(err.Error(), "more than 64 gateways") {
		t.Errorf("error %v", err)
	}
	if err := a.met("odd", "a b,\x00,"+strings.Repeat("y", maxID+1)+",good"); err != nil {
		t.Fatal(err)
	}
	if got, want := a.Said(), a.Sent()+",good"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	var none *Trail
	none.left("x")
	if err := none.met("x", "y"); err != nil || none.Sent() != "" {
		t.Errorf("no trail says %q, %v", none.Sent(), err)
	}
}
