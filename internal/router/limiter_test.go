package router

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// upstreamFunc answers every call with its result. Calls may run concurrently.
type upstreamFunc func() string

func (upstreamFunc) Session(context.Context, *call.Call) (string, error) { return "", nil }

func (f upstreamFunc) Do(context.Context, *call.Call) (call.Result, error) {
	return call.Result{Raw: wire.Raw(f())}, nil
}

func limited(l policy.Limit) policy.Rule {
	return policy.Rule{Name: "some", Effect: policy.Allow, Limit: &l}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), limited(policy.Limit{Rate: 0.5, Burst: 2}))
		do := func(who *call.Principal) error {
			c := newCall("tools/call", `{"name":"files__read"}`, &recorder{})
			c.Principal = who
			_, err := h.Handle(t.Context(), c)
			return err
		}
		ann, bob := &call.Principal{Subject: "ann"}, &call.Principal{Subject: "bob"}
		for range 2 {
			if err := do(ann); err != nil {
				t.Fatal(err)
			}
		}
		err := do(ann)
		since := time.Now().UTC().Format(time.RFC3339)
		want := `{"code":-32603,"message":"too many calls: a limit of the gateway is reached; try again in 2 s","data":{"upstream":"files","since":"` + since + `","reason":"too many calls","retryable":true,"retryAfter":2}}`
		var refused *call.Refused
		if !errors.As(err, &refused) || refused.RetryAfter != 2*time.Second {
			t.Fatalf("error is %v, want one with the time of the next try", err)
		}
		if diff := cmp.Diff(want, string(wantFault(t, err, -32603).Append(nil))); diff != "" {
			t.Error(diff)
		}
		if err := do(bob); err != nil {
			t.Errorf("another principal: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := do(ann); err != nil {
			t.Errorf("after the time: %v", err)
		}
		if n := testutil.ToFloat64(h.metrics.limited.WithLabelValues("some")); n != 1 {
			t.Errorf("rate_limited_total is %v, want 1", n)
		}
		if n := testutil.ToFloat64(h.metrics.requests.WithLabelValues("tools/call", "files", "limited")); n != 1 {
			t.Errorf("requests_total of limited calls is %v, want 1", n)
		}
	})
}

func TestConcurrentLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := routerWithRules(t, nil, filesSource(t), limited(policy.Limit{Concurrent: 2, Per: policy.PerRule}))
		h.Routes().Upstreams["files"] = upstreamFunc(func() string {
			<-gate
			return `{"content":[]}`
		})
		got := make(chan error, 3)
		do := func() {
			_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
			got <- err
		}
		go do()
		go do()
		synctest.Wait()
		do()
		wantFault(t, <-got, -32603)
		close(gate)
		for range 2 {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		do()
		if err := <-got; err != nil {
			t.Errorf("after they have ended: %v", err)
		}
	})
}

// slowUpstream asks the client a question first if the arguments say so.
type slowUpstream struct{ running, most atomic.Int32 }

func (*slowUpstream) Session(context.Context, *call.Call) (string, error) { return "", nil }

func (u *slowUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	if wire.ValueOf(c.Params).Get("arguments", "ask").Bool() {
		if _, err := c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`)); err != nil {
			return call.Result{}, err
		}
	}
	n := u.running.Add(1)
	defer u.running.Add(-1)
	for most := u.most.Load(); n > most && !u.most.CompareAndSwap(most, n); most = u.most.Load() {
	}
	runtime.Gosched()
	return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
}

// gated answers questions when the gate opens.
type gated struct {
	recorder
	gate chan struct{}
}

func (g *gated) Ask(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
	select {
	case <-g.gate:
		return wire.Raw(`{"action":"accept","content":{}}`), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A call does not count as running while its user is asked, so other calls can run.
func TestQuestionsUseNoLimit(t *testing.T) {
	for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20260728} {
		synctest.Test(t, func(t *testing.T) {
			h := routerWithRules(t, nil, filesSource(t), limited(policy.Limit{Concurrent: 1, Per: policy.PerRule}))
			h.Routes().Upstreams["files"] = &slowUpstream{}
			client := &gated{gate: make(chan struct{})}
			do := func(ask bool) error {
				_, err := h.Handle(t.Context(), callOf(rev, allCaps, `{"name":"files__read","arguments":{"ask":`+strconv.FormatBool(ask)+`}}`, client))
				return err
			}
			got := make(chan error)
			for range 3 {
				go func() { got <- do(true) }()
				synctest.Wait()
			}
			if err := do(false); err != nil {
				t.Errorf("%s: while other users are asked: %v", rev, err)
			}
			close(client.gate)
			for range 3 {
				if err := <-got; err != nil {
					t.Errorf("%s: a call with a question: %v", rev, err)
				}
			}
			for _, b := range h.limits.buckets {
				if b.running != 0 || b.asking != 0 {
					t.Errorf("%s: after all have ended %d run and %d ask", rev, b.running, b.asking)
				}
			}
		})
	}
}

// With many clients of both eras, no more calls run than the limit allows, for every kind of
// key. Every refused call gets the time after which to try again.
func TestManyClientsAtALimit(t *testing.T) {
	for _, per := range []policy.Per{policy.PerPrincipal, policy.PerRule, policy.PerUpstream, policy.PerTool} {
		h := routerWithRules(t, nil, filesSource(t), limited(policy.Limit{Concurrent: 3, Per: per}))
		u := &slowUpstream{}
		h.Routes().Upstreams["files"] = u
		var done, refused atomic.Int32
		var wg sync.WaitGroup
		for i := range 64 {
			rev := []wire.Revision{wire.Rev20251125, wire.Rev20260728}[i%2]
			wg.Go(func() {
				for range 50 {
					c := callOf(rev, allCaps, `{"name":"files__read","arguments":{}}`, &recorder{})
					var limited *call.Refused
					switch _, err := h.Handle(t.Context(), c); {
					case err == nil:
						done.Add(1)
					case errors.As(err, &limited) && limited.RetryAfter >= time.Second && strings.Contains(string(limited.Err.Append(nil)), "try again in"):
						refused.Add(1)
					default:
						t.Errorf("got %v", err)
					}
				}
			})
		}
		wg.Wait()
		if most := u.most.Load(); most > 3 || done.Load() == 0 || done.Load()+refused.Load() != 64*50 {
			t.Errorf("%v: %d calls ran at once, %d were done and %d refused", per, most, done.Load(), refused.Load())
		}
		for _, b := range h.limits.buckets {
			if b.running != 0 {
				t.Errorf("%v: after all have ended %d run", per, b.running)
			}
		}
	}
}

func TestLimitsCountFor(t *testing.T) {
	part := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{})}, []catalog.Source{filesSource(t)}).Parts()[0]
	listed := func(name string) catalog.Target {
		return catalog.Target{Part: part, Kind: call.Tool, Public: name, Entry: &catalog.Entry{}}
	}
	one, two := listed("files__a"), listed("files__b")
	ann, bob := &call.Call{Principal: &call.Principal{Subject: "ann"}}, &call.Call{Principal: &call.Principal{Subject: "bob"}}
	unlisted := catalog.Target{Part: part, Kind: call.Resource, Public: "files+x:" + t.Name()}
	other := catalog.Target{Part: part, Kind: call.Resource, Public: "files+y:" + t.Name()}
	for _, tt := range []struct {
		per  policy.Per
		same bool
		a, b *call.Call
		x, y catalog.Target
	}{
		{policy.PerPrincipal, true, ann, ann, one, two},
		{policy.PerPrincipal, false, ann, bob, one, one},
		{policy.PerRule, true, ann, bob, one, two},
		{policy.PerUpstream, true, ann, bob, one, two},
		{policy.PerTool, true, ann, bob, one, one},
		{policy.PerTool, false, ann, ann, one, two},
		{policy.PerTool, true, ann, bob, unlisted, other},
	} {
		if same := limitKey(tt.per, tt.a, tt.x) == limitKey(tt.per, tt.b, tt.y); same != tt.same {
			t.Errorf("%v: counted together %v, want %v", tt, same, tt.same)
		}
	}
}

func TestLimiter(t *testing.T) {
	now := time.Unix(1000, 0)
	l := &limiter{now: func() time.Time { return now }}
	part := catalog.Build(catalog.Options{Policy: policy.MustNew(policy.Options{})}, []catalog.Source{filesSource(t)}).Parts()[0]
	target := catalog.Target{Part: part}
	who := func(n int) *call.Call { return &call.Call{Principal: &call.Principal{Subject: strconv.Itoa(n)}} }
	free := &policy.Limit{Rule: "free", Rate: 1, Burst: 10}
	tight := &policy.Limit{Rule: "tight", Rate: 1, Burst: 1}

	// A call that one limit refuses does not count for another.
	for i := range 5 {
		if _, refusal := l.take([]*policy.Limit{free, tight}, who(0), target); (refusal == nil) != (i == 0) || refusal != nil && refusal.limit.Rule != "tight" {
			t.Fatalf("call %d: %+v", i, refusal)
		}
	}
	if used := l.buckets[bucketKey{"free", who(0).Principal.Identity()}].used; used != 1 {
		t.Errorf("%v calls count, want 1", used)
	}
	// Memory is bounded, and many clients cannot get around a limit.
	for n := range maxBuckets + 100 {
		taken, _ := l.take([]*policy.Limit{tight}, who(n), target)
		taken.release()
	}
	if n := len(l.buckets); n > maxBuckets+1 {
		t.Errorf("%d buckets, want at most %d", n, maxBuckets+1)
	}
	if _, refusal := l.take([]*policy.Limit{tight}, who(5), target); refusal == nil {
		t.Error("the limit of an earlier client was forgotten")
	}
	if _, refusal := l.take([]*policy.Limit{tight}, who(maxBuckets+5000), target); refusal == nil {
		t.Error("clients without a bucket have no limit")
	}
	now = now.Add(time.Hour)
	if _, refusal := l.take([]*policy.Limit{tight}, who(maxBuckets+5000), target); refusal != nil || len(l.buckets) > 10 {
		t.Errorf("%+v, %d unused buckets are kept", refusal, len(l.buckets))
	}
}

func TestChallenge(t *testing.T) {
	rule := policy.Rule{Name: "write", Effect: policy.Allow, Who: policy.Who{Scopes: []string{"files:write", "admin"}}, Challenge: true}
	h := routerWithRules(t, answers(`{"content":[]}`), filesSource(t), rule)
	_, err := h.Handle(t.Context(), newCall("tools/call", `{"name":"files__read"}`, &recorder{}))
	want := `{"code":-32602,"message":"the tool \"files__read\" needs a scope that the caller lacks: files:write or admin","data":{"requiredScopes":["files:write","admin"]}}`
	var refused *call.Refused
	if !errors.As(err, &refused) || !cmp.Equal(refused.Scopes, []string{"files:write", "admin"}) || string(refused.Err.Append(nil)) != want || h.files.got != nil {
		t.Errorf("got %#v: %v", refused, err)
	}
	res, err := h.Handle(t.Context(), newCall("tools/list", `{}`, nil))
	if err != nil || len(string(res.Raw)) < 50 {
		t.Errorf("the list is %s, %v; want the tool that needs the scope", res.Raw, err)
	}
}
