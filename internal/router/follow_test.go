package router

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/wire"
)

// Subscriptions move to an upstream that replaces another, and their clients get an update.
// A subscription that cannot be moved yet is moved later. A cancelled subscription is not moved.
func TestSubscriptionsFollow(t *testing.T) {
	s, old := subscriptionsForTest(t)
	var kept, ended listener
	cancel, err := s.Subscribe(t.Context(), newCall(wire.MethodListen, `{}`, nil), "files+file:///a", kept.deliver)
	if err != nil {
		t.Fatal(err)
	}
	cancelEnded, err := s.Subscribe(t.Context(), newCall(wire.MethodListen, `{}`, nil), "files+file:///b", ended.deliver)
	if err != nil {
		t.Fatal(err)
	}
	s.Reattach(t.Context())
	if got := kept.take(); len(got) > 0 || len(old.counts) != 2 {
		t.Errorf("without a new upstream: updates %q, subscribed %v", got, old.counts)
	}
	swap := func(to map[string]Subscriber) {
		next := *s.router.Routes()
		next.Subscribers = to
		s.router.Swap(&next)
		s.Reattach(t.Context())
	}
	swap(map[string]Subscriber{})
	next := &fakeSubscriber{counts: map[string]int{}, refuse: wire.Errorf(wire.CodeInternal, "not yet")}
	swap(map[string]Subscriber{"files": next})
	if got := kept.take(); len(got) > 0 || len(old.counts) != 2 {
		t.Errorf("while the subscription cannot be moved: updates %q, subscribed %v", got, old.counts)
	}
	next.refuse = nil
	cancelEnded()
	cancelEnded()
	s.Reattach(t.Context())
	if diff := cmp.Diff(map[string]int{"file:///a": 1}, next.counts); diff != "" || len(old.counts) > 0 {
		t.Errorf("moved (-want +got):\n%s; %v are left at the old upstream", diff, old.counts)
	}
	if got := strings.Join(kept.take(), "; "); got != `files+file:///a {"uri":"files+file:///a"}` {
		t.Errorf("updates after the move: %s", got)
	}
	s.Updated("files", "", wire.Raw(`{"uri":"file:///a"}`))
	s.Updated("files", "", wire.Raw(`{"uri":"file:///b"}`))
	if a, b := len(kept.take()), len(ended.take()); a != 1 || b != 0 {
		t.Errorf("%d updates for the subscription, %d for the cancelled one", a, b)
	}
	cancel()
	cancel()
	if len(next.counts) > 0 || len(s.set) > 0 {
		t.Errorf("subscriptions left: %v and %v", next.counts, s.set)
	}
}
