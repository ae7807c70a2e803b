package park

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// request is a tools/call of a client that answers elicitations.
type request struct {
	call   call.Call
	ctx    context.Context
	cancel context.CancelFunc
}

func newRequest(t *testing.T, owner uint64, params string) *request {
	r := &request{call: call.Call{
		ID: fmt.Sprint(time.Now().UnixNano()), Method: wire.MethodToolsCall, Params: wire.Raw(params), ShareKey: owner, Principal: call.Anonymous,
		Client: &call.Client{Revision: wire.LatestModern, Capabilities: wire.Raw(`{"elicitation":{"form":{}}}`)},
	}}
	r.ctx, r.cancel = context.WithCancel(t.Context())
	return r
}

func (r *request) Call() *call.Call         { return &r.call }
func (r *request) Context() context.Context { return r.ctx }
func (r *request) Notify(string, wire.Raw)  {}
func (r *request) EndNotify()               {}

// bed is a table whose calls ask one thing, in a bubble.
type bed struct {
	*Table
	t      *testing.T
	gauge  prometheus.Gauge
	refuse error // what Permit returns
	linger bool  // handlers return when their context ends
	span   call.Span

	mu       sync.Mutex
	causes   []error // why the contexts of calls have ended, nil for calls that came to an end
	asks     []error // why asks got no answer, nil for those that got one
	released int
}

const testTTL = time.Minute

func run(t *testing.T, maxPerClient, max int, f func(*bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "parked"})}
		b.Table = NewTable(Options{
			Sealer: bridge.NewSealer(), Replica: "here", MaxPerClient: maxPerClient, Max: max,
			TTL:    func() time.Duration { return testTTL },
			Permit: func(context.Context, *call.Call) error { return b.refuse },
			Gauge:  b.gauge, Logger: ratelog.New(nil),
		})
		f(b)
		b.Stop(errors.New("the test has ended"))
		b.Wait()
		if n := testutil.ToFloat64(b.gauge); n != 0 {
			t.Errorf("%v calls are still parked", n)
		}
		if len(b.byID) != 0 || len(b.running) != 0 || b.slots.Held() != 0 {
			t.Errorf("the table still has %d calls, %d of them running, and %d slots", len(b.byID), len(b.running), b.slots.Held())
		}
		if b.released != len(b.causes) {
			t.Errorf("%d calls were released %d times", len(b.causes), b.released)
		}
	})
}

// begin runs a call and returns its result as text, or its error.
func (b *bed) begin(r *request) string {
	res, err := b.Run(r, func(ctx context.Context, c *call.Call) (call.Result, error) {
		if b.span != nil {
			c.Trace.Begin(time.Now, b.span)
		}
		a, err := c.Back.Ask(ctx, wire.MethodElicit, wire.Raw(`{"message":"?"}`))
		if b.linger {
			<-ctx.Done()
		}
		b.mu.Lock()
		b.causes, b.asks = append(b.causes, context.Cause(ctx)), append(b.asks, err)
		b.mu.Unlock()
		if err == nil {
			err = ctx.Err()
		}
		return call.Result{Raw: a}, err
	}, func() { b.mu.Lock(); b.released++; b.mu.Unlock() })
	return text(res, err)
}

func text(res call.Result, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(res.Raw)
}

// state returns the requestState of a round.
func (b *bed) state(round string) string {
	b.t.Helper()
	state := wire.ValueOf(wire.Raw(round)).Get("requestState").Str()
	if state == "" {
		b.t.Fatalf("not a round: %s", round)
	}
	return state
}

// retry sends the answer of a user to a round.
func (b *bed) retry(state string) string {
	r := newRequest(b.t, 0, `{"requestState":"`+state+`","inputResponses":{"ask-1":{"action":"decline"}}}`)
	if got := StateOf(&r.call); got != state {
		b.t.Errorf("the state of the retry is %q", got)
	}
	return text(b.Resume(r, state))
}

func TestRounds(t *testing.T) {
	run(t, 1, 2, func(b *bed) {
		state := b.state(b.begin(newRequest(b.t, 0, `{}`)))
		b.refuse = wire.Errorf(wire.CodeInvalidParams, "not now")
		if got := b.retry(state); !strings.Contains(got, "not now") {
			t.Errorf("a retry that is not permitted: %s", got)
		}
		b.refuse = nil
		if got := b.retry(state); got != `{"action":"decline"}` {
			t.Errorf("the result is %s", got)
		}
		if got := b.retry(state); !strings.Contains(got, "already used") {
			t.Errorf("a second retry: %s", got)
		}
	})
}

// A parked call ends with its TTL, with Drain and with Stop; a call that a request
// waits for ends with that request and with Stop. The cause says which.
func TestEnds(t *testing.T) {
	stop := errors.New("stopped")
	for name, tt := range map[string]struct {
		end    func(*bed, *request)
		parked bool // the call is parked at the end
		cause  error
		lapsed bool // the ask
	}{
		"expired":          {func(*bed, *request) { time.Sleep(testTTL) }, true, ErrExpired, true},
		"drained":          {func(b *bed, _ *request) { b.Drain(stop) }, true, stop, true},
		"stopped":          {func(b *bed, _ *request) { b.Stop(stop) }, true, stop, true},
		"abandoned":        {func(_ *bed, r *request) { r.cancel() }, false, ErrAbandoned, false},
		"stopped, waiting": {func(b *bed, _ *request) { b.Stop(stop) }, false, stop, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 1, 2, func(b *bed) {
				b.linger = true
				r := newRequest(b.t, 0, `{}`)
				go b.begin(r)
				if tt.parked {
					time.Sleep(2 * GatherWindow)
				}
				synctest.Wait()
				tt.end(b, r)
				synctest.Wait()
				b.mu.Lock()
				defer b.mu.Unlock()
				if len(b.causes) != 1 || b.causes[0] != tt.cause {
					t.Fatalf("the call ended with %v, want %v", b.causes, tt.cause)
				}
				if lapsed := b.asks[0] == call.ErrLapsed; lapsed != tt.lapsed {
					t.Errorf("the ask ended with %v", b.asks[0])
				}
			})
		})
	}
}

// No client parks more calls than one may, or than are left for the others. An ask
// that cannot be put to the client lapses.
func TestSlots(t *testing.T) {
	run(t, 2, 6, func(b *bed) {
		for owner, want := range []int{2, 2, 1, 0} {
			got := 0
			for strings.Contains(b.begin(newRequest(b.t, uint64(owner), `{}`)), "input_required") {
				got++
			}
			if got != want {
				t.Errorf("client %d parks %d calls, want %d", owner, got, want)
			}
		}
		time.Sleep(testTTL)
		synctest.Wait()
		b.state(b.begin(newRequest(b.t, 9, `{}`)))
	})
}

func TestNothingBeginsAfterStop(t *testing.T) {
	run(t, 1, 2, func(b *bed) {
		b.Stop(errors.New("stopped"))
		released := false
		_, err := b.Run(newRequest(b.t, 0, `{}`), nil, func() { released = true })
		if err == nil || err.Error() != "stopped" || !released {
			t.Errorf("the call ended with %v, released %t", err, released)
		}
	})
}

// span is a span that remembers what it was linked with.
type span struct {
	call.Span
	parent string
	links  []string
}

func (s *span) Context() *call.TraceContext                           { return &call.TraceContext{Traceparent: s.parent} }
func (s *span) Link(to *call.TraceContext)                            { s.links = append(s.links, to.Traceparent) }
func (s *span) Start(call.Stage, time.Time, call.SpanStart) call.Span { return &span{parent: "stage"} }
func (s *span) End(time.Time, call.SpanEnd) (exported bool)           { return false }

// TestRetryIsTraced checks that the span of a retry names the tool of the parked call and is linked with its
// span, also when another replica has parked the call.
func TestRetryIsTraced(t *testing.T) {
	run(t, 1, 2, func(b *bed) {
		first := newRequest(b.t, 0, `{"name":"cafe__order"}`)
		first.call.Trace = &call.Trace{}
		b.span = &span{parent: "call"}
		state := b.state(b.begin(first))
		for _, replica := range []string{"there", "here"} {
			b.options.Replica = replica
			b.options.Pass = func(context.Context, string, *call.Call) (call.Result, error) { return call.Result{}, nil }
			own := &span{parent: "retry"}
			r := newRequest(b.t, 0, `{"name":"cafe__order","requestState":"`+state+`","inputResponses":{"ask-1":{"action":"decline"}}}`)
			r.call.Trace = &call.Trace{}
			r.call.Trace.Begin(time.Now, own)
			if _, err := b.Resume(r, state); err != nil {
				t.Fatalf("%s: %v", replica, err)
			}
			if r.call.Trace.Resumed != "cafe__order" || len(own.links) != 1 || own.links[0] != "call" {
				t.Errorf("a retry at the replica %s names %q and is linked with %q", replica, r.call.Trace.Resumed, own.links)
			}
		}
	})
}
