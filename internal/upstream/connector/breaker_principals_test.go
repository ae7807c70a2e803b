package connector

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Failures in the sessions of two principals, who have one each, open their breakers without a
// ping, and keep them open, until a call is answered in any session.
func TestBreakersOfPrincipals(t *testing.T) {
	health, metrics, now := threeFailures(), NewMetrics(), time.Now()
	session := func() *breaker { return &breaker{health: health, metrics: metrics, own: true} }
	ann, other, bob := session(), session(), session()
	fails := func(b *breaker, principal string, how failure, want ...verdict) {
		t.Helper()
		var got []verdict
		for range want {
			now = now.Add(openFor)
			a, _ := b.admit(now)
			a.works = true
			v := b.failed(a, &failedCall{how, "x", principal, "no", ""}, now)
			if got = append(got, v); v == needsPing {
				b.pinged(true, now)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls of %s (-want +got):\n%s", principal, diff)
		}
	}
	fails(ann, "ann", broken, noVerdict, noVerdict, needsPing, noVerdict, noVerdict, needsPing)
	fails(other, "ann", broken, noVerdict, noVerdict, needsPing) // of the same principal
	fails(bob, "bob", timedOut, noVerdict, noVerdict, needsPing) // one slow item
	fails(bob, "bob", broken, noVerdict, noVerdict, opened, reopened, reopened)
	fails(ann, "ann", broken, noVerdict, noVerdict, opened)
	other.answered()
	fails(bob, "bob", broken, closed, noVerdict, needsPing)
	fails(other, "ann", broken, noVerdict, noVerdict, opened)
}

// The time of a breaker is when it opened. Calls of its session failed before, and other sessions
// may have got answers meanwhile.
func TestBreakerSince(t *testing.T) {
	health, metrics, now := NewHealth(HealthSettings{Failures: 2, Open: openFor}), NewMetrics(), time.Now()
	session := func() *breaker { return &breaker{health: health, metrics: metrics} }
	ann, bob := session(), session()
	t.Cleanup(ann.end)
	fails := func(b *breaker, principal string, want verdict) {
		t.Helper()
		now = now.Add(openFor)
		a, _ := b.admit(now)
		if got := b.failed(a, &failedCall{lost, "x", principal, "no", ""}, now); got != want {
			t.Fatalf("a call of %s: %d, want %d", principal, got, want)
		}
	}
	opensAt := func(what string, want Breakers) {
		t.Helper()
		if open, _ := health.Breakers(); open != want {
			t.Errorf("%s: %v, want %v", what, open, want)
		}
	}
	fails(ann, "ann", noVerdict)
	now = now.Add(openFor)
	bob.answered()
	fails(ann, "ann", opened)
	first := now
	opensAt("after the last call", Breakers{1, first})
	fails(ann, "ann", reopened)
	opensAt("after a trial", Breakers{1, first})
	ann.answered()
	fails(ann, "ann", noVerdict)
	fails(ann, "ann", opened)
	opensAt("after an answer", Breakers{1, now})
}
