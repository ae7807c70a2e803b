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
			v := b.failed(a, &failedCall{how, "x", principal, "no"}, now)
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
