package matrix

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/polltest"
	"mcpgateway/test/internal/observe"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// run is the matrix of one transport.
type run struct {
	transport string
	fleet     *fleet
	g         *gateway
	expected  map[string]string
	record    *record
	client    *raw.Client
	restarted map[cell]float64 // before the fault
}

// TestMatrix runs every cell. The cells of one transport and one moment run at the same time.
func TestMatrix(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	r := &record{outcomes: map[string]string{}}
	expected := map[string]string{}
	if !*update {
		expected = readCells(t)
	}
	t.Run("transports", func(t *testing.T) {
		for _, transport := range transports {
			t.Run(transport, func(t *testing.T) {
				t.Parallel()
				(&run{transport: transport, fleet: f, expected: expected, record: r}).all(t)
			})
		}
	})
	if *update {
		r.write(t)
		writePage(t, r.outcomes)
	}
}

func (r *run) all(t *testing.T) {
	bystander := r.fleet.bystanders[r.transport]
	r.g = startGateway(t, r.fleet, rig.Upstreams{bystander.Name: bystander.config}, nil)
	revision := raw.Legacy
	if r.transport == modern {
		revision = raw.Modern
	}
	r.client = open(t, r.g.Gateway, revision)
	for _, revision := range []string{raw.Legacy, raw.Modern} { // each may open a session with the bystander
		answer, err := work(bounded(t), open(t, r.g.Gateway, revision), bystander.Name, "hello", true)
		if err := checkAnswer(answer, err, "hello"); err != nil {
			t.Fatal(err)
		}
	}
	alone := observe.Settled(t, r.g.Gateway)

	// The gateway remembers no catalog of an earlier run: the lists come first.
	r.begin(t, atList)
	r.g.use(t, r.upstreams())
	r.check(t, atList, r.failedStart)
	r.g.use(t, nil)
	observe.CheckReturn(t, r.g.Gateway, alone)

	r.begin(t, atConnect)
	r.g.use(t, r.upstreams())
	r.check(t, atConnect, r.failedStart)
	r.awaitAll(t)
	r.callAll(t)
	all := observe.Settled(t, r.g.Gateway)

	for _, moment := range []string{atCall, atStream, atIdle, atRepeat} {
		r.begin(t, moment)
		r.check(t, moment, r.failedCall)
		r.awaitAll(t)
		observe.CheckReturn(t, r.g.Gateway, all)
	}
	r.g.use(t, nil)
	observe.CheckReturn(t, r.g.Gateway, alone)
}

// upstreams are all upstreams of the transport that have faults.
func (r *run) upstreams() rig.Upstreams {
	out := rig.Upstreams{}
	for c, s := range r.fleet.servers {
		if c.transport == r.transport {
			out[s.Name] = s.config
		}
	}
	return out
}

func (r *run) server(c cell) *server { return r.fleet.servers[cell{c.kind, c.transport, ""}] }

// begin begins the faults of a moment.
func (r *run) begin(t *testing.T, moment string) {
	t.Helper()
	r.restarted = map[cell]float64{}
	for _, c := range cellsOf(r.transport, moment) {
		if moment == atIdle {
			r.restarted[c], _ = r.restarts(c) // there is no series before the first restart
		}
		r.server(c).set(t, c.kind+" "+moment)
	}
}

// check runs the cells of a moment at the same time, while the bystander is called.
func (r *run) check(t *testing.T, moment string, one func(*testing.T, context.Context, cell) outcome) {
	stop := busy(t, r.g.Gateway, r.fleet.bystanders[r.transport].Name)
	t.Run(moment, func(t *testing.T) {
		for _, c := range cellsOf(r.transport, moment) {
			t.Run(c.kind, func(t *testing.T) {
				t.Parallel()
				ctx := bounded(t)
				got := one(t, ctx, c)
				r.record.add(c, got)
				if want := r.expected[c.String()]; !*update && got.String() != want {
					t.Errorf("the client got\n%s\nwant\n%s", got, want)
				}
				r.recover(t, ctx, c)
			})
		}
	})
	stop()
}

// failedStart is what a client gets while an upstream does not start: a list, then a call.
func (r *run) failedStart(t *testing.T, ctx context.Context, c cell) outcome {
	s := r.server(c)
	want := r.expected[c.String()]
	var o outcome
	o.list = listOutcome(ctx, t, r.client, s.Name, func(reason string) bool {
		if reason == "" {
			return !strings.HasPrefix(want, "list: ") && want != ""
		}
		return strings.HasPrefix(want, "list: "+reason+"; ")
	})
	answer, err := work(ctx, r.client, s.Name, "first", false)
	o.call = outcomeOf(answer, err, s.Name, "first")
	if asksForPause(c.kind) && c.moment == atConnect {
		o.call = retryAfter.ReplaceAllString(o.call, " after the pause")
	}
	return o
}

// failedCall is what a client gets for a call.
func (r *run) failedCall(t *testing.T, ctx context.Context, c cell) outcome {
	s := r.server(c)
	if c.moment == atIdle {
		r.awaitIdle(t, c)
		s.set(t, "")
	}
	text := fmt.Sprint("call of ", c.kind)
	if c.moment == atRepeat {
		return outcome{call: r.untilRefused(t, ctx, s, text)}
	}
	answer, err := work(ctx, r.client, s.Name, text, c.moment == atStream)
	switch {
	case c.moment == atIdle && asksForPause(c.kind):
		polltest.UntilNil(t, "the pause is over", func() error {
			answer, err = work(ctx, r.client, s.Name, text, false)
			return checkAnswer(answer, err, text)
		})
	case c.moment == atIdle && waitedForOld(answer):
		answer, err = work(ctx, r.client, s.Name, text, false)
	}
	if events := len(answer.Before); c.moment == atStream && events != 2 {
		t.Errorf("%d events before the answer, want 2", events)
	}
	return outcome{call: outcomeOf(answer, err, s.Name, text)}
}

// untilRefused calls until the circuit breaker is open, and returns what clients get then.
func (r *run) untilRefused(t *testing.T, ctx context.Context, s *server, text string) string {
	for n := 1; ; n++ {
		answer, err := work(ctx, r.client, s.Name, text, false)
		got := outcomeOf(answer, err, s.Name, text)
		if waits := retryAfter.FindString(got); waits != "" {
			if n <= failures {
				t.Errorf("call %d was refused, want %d failures first", n, failures)
			}
			return failedCalls.ReplaceAllString(strings.Replace(got, waits, " after breaker.open", 1), "breaker.failures failed calls")
		}
		if n == 5*failures {
			t.Errorf("call %d: the circuit breaker is still closed", n)
			return got
		}
	}
}

// retryAfter and failedCalls are the parts of an outcome that depend on time: a call may fail while the gateway waits for a ping.
var (
	retryAfter  = regexp.MustCompile(` after [1-7] s`)
	failedCalls = regexp.MustCompile(`[0-9]+ failed calls`)
)

// awaitIdle waits until a fault has had its effect on a gateway that asks nothing.
func (r *run) awaitIdle(t *testing.T, c cell) {
	switch {
	case r.transport == stdio && c.kind == hangs: // there is nothing to notice
	case r.transport == stdio && slices.Contains([]string{exits, half, noAnswer}, c.kind):
		polltest.UntilNil(t, "the process is started again", func() error {
			n, err := r.restarts(c)
			if err == nil && n == r.restarted[c] {
				err = fmt.Errorf("%v restarts", n)
			}
			return err
		})
	case c.kind == refuses, c.kind == exits, c.kind == exitLoop:
		polltest.UntilNil(t, "the gateway notices the end of the server", func() error {
			up, err := observe.Metric(r.g.Gateway, fmt.Sprintf("mcp_gateway_upstream_up{upstream=%q}", r.server(c).Name))
			if err == nil && up != 0 {
				err = fmt.Errorf("upstream_up is %v", up)
			}
			return err
		})
	default:
		r.server(c).waitHit(t)
	}
}

// restarts returns how often the gateway has connected to the upstream again.
func (r *run) restarts(c cell) (float64, error) {
	return observe.Metric(r.g.Gateway, fmt.Sprintf("mcp_gateway_upstream_restarts_total{upstream=%q}", r.server(c).Name))
}

// recover ends the fault. The next call is answered; a start that failed is repeated first, and an open circuit breaker lets the next call through later.
func (r *run) recover(t *testing.T, ctx context.Context, c cell) {
	s := r.server(c)
	s.set(t, "")
	call := func() error {
		answer, err := work(ctx, r.client, s.Name, "after the fault", true)
		if waitedForOld(answer) {
			answer, err = work(ctx, r.client, s.Name, "after the fault", true)
		}
		return checkAnswer(answer, err, "after the fault")
	}
	if c.moment == atConnect || c.moment == atList || c.moment == atRepeat {
		polltest.UntilNil(t, "the upstream is back", call)
	} else if err := call(); err != nil {
		t.Errorf("the first call after the fault: %v", err)
	}
}

// waitedForOld reports whether a call may have waited for an attempt to connect that began before the end of the fault: its error is retryable.
func waitedForOld(answer raw.Answer) bool {
	fault := answer.Response.Fault()
	return fault != nil && strings.Contains(string(fault.Data), `"retryable":true`)
}

// callAll calls every upstream, each of which may open a session for the client.
func (r *run) callAll(t *testing.T) {
	t.Helper()
	for name := range r.upstreams() {
		answer, err := work(bounded(t), r.client, name, "hello", true)
		if err := checkAnswer(answer, err, "hello"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// awaitAll waits until every upstream lists its tool and is not reported as unavailable.
func (r *run) awaitAll(t *testing.T) {
	t.Helper()
	polltest.UntilNil(t, "all upstreams are back", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := observe.List(ctx, r.client)
		if err != nil {
			return err
		}
		if len(got.Unavailable) > 0 {
			return fmt.Errorf("unavailable: %v", got.Unavailable)
		}
		for name := range r.upstreams() {
			if len(got.Of(name)) != 1 {
				return fmt.Errorf("%s lists %v", name, got.Of(name))
			}
		}
		return nil
	})
}
