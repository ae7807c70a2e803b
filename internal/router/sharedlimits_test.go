package router

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
)

// fakeShared are the limits of three replicas. It counts calls, and allows max at once.
type fakeShared struct {
	max, running int
	got          []SharedLimit
	steps        []string
	err          error
}

func (f *fakeShared) Take(_ context.Context, limits []SharedLimit) (LimitedCall, int, time.Duration, error) {
	f.got = limits
	switch {
	case f.err != nil:
		return nil, -1, 0, f.err
	case f.running >= f.max:
		return nil, len(limits) - 1, 3 * time.Second, nil
	}
	f.running++
	return f, -1, 0, nil
}

func (f *fakeShared) Replicas() int { return 3 }
func (f *fakeShared) Ask()          { f.steps = append(f.steps, "ask") }
func (f *fakeShared) Answered()     { f.steps = append(f.steps, "answered") }
func (f *fakeShared) Release()      { f.running--; f.steps = append(f.steps, "release") }

func TestSharedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &fakeShared{max: 1}
		h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), limited(policy.Limit{Rate: 9, Burst: 9, Per: policy.PerRule}))
		h.sharedLimits = shared
		do := func() error {
			_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
			return err
		}
		if err := do(); err != nil {
			t.Fatal(err)
		}
		want := []SharedLimit{{Limit: policy.Limit{Rule: "some", Rate: 9, Burst: 9, Per: policy.PerRule}}}
		if diff := cmp.Diff(want, shared.got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"release"}, shared.steps); diff != "" {
			t.Error(diff)
		}
		shared.max = 0
		err := do()
		wantFault(t, err, -32603)
		var refused *call.Refused
		if !errors.As(err, &refused) || refused.RetryAfter != 3*time.Second {
			t.Errorf("error is %v, want one with the time of the next try", err)
		}
		// While the limits of all fail, this replica has a third: three calls at once.
		shared.err = errors.New("away")
		for range 3 {
			if err := do(); err != nil {
				t.Error(err)
			}
		}
		wantFault(t, do(), -32603)
		shared.err, shared.max = nil, 1
		if err := do(); err != nil {
			t.Errorf("once they work again: %v", err)
		}
	})
}

func TestShareIsAtLeastOneCall(t *testing.T) {
	got := shareOf([]*policy.Limit{{Rule: "a", Rate: 1, Burst: 1, Concurrent: 2}, {Rule: "b", Concurrent: 9}}, 4)
	want := []*policy.Limit{{Rule: "a", Rate: .25, Burst: 1, Concurrent: 1}, {Rule: "b", Concurrent: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A user is not asked to confirm a call while a limit is known to be reached.
func TestSharedLimitBeforeQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t))
		h.sharedLimits = &fakeShared{}
		limits := []*policy.Limit{{Rule: "a", Rate: 1, Burst: 1, Per: policy.PerRule}}
		c := newCall("tools/call", `{"name":"files__read"}`, &recorder{})
		f := h.newForwarding(c)
		if h.peekLimits(limits, c, f.target) != nil {
			t.Error("refused before the limit was reached")
		}
		if _, refusal, err := h.takeLimits(t.Context(), limits, c, f.target); refusal == nil || err != nil {
			t.Fatalf("got %v, %v", refusal, err)
		}
		if refusal := h.peekLimits(limits, c, f.target); refusal == nil || refusal.wait != 3*time.Second {
			t.Errorf("got %v", refusal)
		}
		raised := []*policy.Limit{{Rule: "a", Rate: 5, Burst: 5, Per: policy.PerRule}}
		if refusal := h.peekLimits(raised, c, f.target); refusal != nil {
			t.Errorf("a reload has raised the limit, and the user is not asked: %s", refusal)
		}
		time.Sleep(3 * time.Second)
		if h.peekLimits(limits, c, f.target) != nil {
			t.Error("refused for longer than said")
		}
	})
}

// A call whose user is asked tells the limits of all replicas.
func TestSharedLimitsWhileAsking(t *testing.T) {
	f := &fakeShared{max: 1}
	h := &reservation{shared: f}
	h.ask()
	h.answered()
	h.release()
	if diff := cmp.Diff([]string{"ask", "answered", "release"}, f.steps); diff != "" {
		t.Error(diff)
	}
}
