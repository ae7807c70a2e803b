package frontend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/park"
	"mcpgateway/internal/wire"
)

func TestParkAndResume(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		first := l.post("")
		if first.message() != nil {
			t.Fatal("answered before others could ask")
		}
		gathered()
		requests, state := first.round()
		want := map[string]any{"ask-1": map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "name?"}}}
		if diff := cmp.Diff(want, requests); diff != "" {
			t.Error(diff)
		}
		if n := testutil.ToFloat64(l.s.options.Metrics.Parked); n != 1 {
			t.Errorf("parked_calls is %v, want 1", n)
		}
		time.Sleep(parkTTL / 2)
		second := l.post(retry(state, `{"ask-1":{"action":"accept","content":{"n":12345678901234567890}},"extra":{"x":1}}`))
		if got := second.result(); got != `{"action":"accept","content":{"n":12345678901234567890}}` {
			t.Errorf("the upstream got %v", got)
		}
		if got := l.causes(); got != nil {
			t.Errorf("a call was cancelled: %v", got)
		}
	})
}

// A legacy server may ask without params. The client gets empty params.
func TestAnAskWithoutParams(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		roots, err := c.Back.Ask(ctx, wire.MethodRootsList, nil)
		if err != nil {
			return call.Result{}, err
		}
		return say(string(roots))
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		gathered()
		requests, state := first.round()
		want := map[string]any{"ask-1": map[string]any{"method": "roots/list", "params": map[string]any{}}}
		if diff := cmp.Diff(want, requests); diff != "" {
			t.Error(diff)
		}
		if got := l.post(retry(state, `{"ask-1":{"roots":[]}}`)).result(); got != `{"roots":[]}` {
			t.Errorf("the upstream got %v", got)
		}
	})
}

func TestAsksAtOnceAndOneAfterAnother(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		var out [3]string
		var wg sync.WaitGroup
		for i := range 2 { // 15 ms apart: within the window of each other
			wg.Go(func() { out[i] = elicit(ctx, c, fmt.Sprint(i)) })
			time.Sleep(15 * time.Millisecond)
		}
		wg.Wait()
		out[2] = elicit(ctx, c, "last")
		return say(out)
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		time.Sleep(15*time.Millisecond + park.GatherWindow)
		requests, state := first.round()
		if len(requests) != 2 {
			t.Fatalf("requests are %v, want two", requests)
		}
		second := l.post(retry(state, `{"ask-2":{"action":"decline"},"ask-1":{"action":"cancel"}}`))
		gathered()
		requests, next := second.round()
		if _, ok := requests["ask-3"]; !ok || len(requests) != 1 || next == state {
			t.Fatalf("requests are %v, want one under a fresh key", requests)
		}
		third := l.post(retry(next, `{"ask-3":{"action":"accept"}}`))
		want := []any{`{"action":"cancel"}`, `{"action":"decline"}`, `{"action":"accept"}`}
		if diff := cmp.Diff(want, third.result()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSomeAnswers(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		var out [2]string
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() { out[i] = elicit(ctx, c, "same") })
		}
		wg.Wait()
		return say(out)
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		for _, bad := range []string{`[]`, `"x"`, `{"ask-1":"accept"}`, `{"ask-1":{"action":"maybe"}}`, `{"ask-1":{"action":"accept","content":1}}`} {
			l.post(retry(state, bad)).fault(-32602, "inputResponses")
			if reasons := l.refusals(); len(reasons) != 1 || !strings.Contains(reasons[0], "invalid params: inputResponses") {
				t.Errorf("%s: the log has the reasons %q", bad, reasons)
			}
		}
		requests, second := l.post(retry(state, `{"ask-2":{"action":"decline"}}`)).round()
		if _, ok := requests["ask-1"]; !ok || len(requests) != 1 {
			t.Fatalf("asked again: %v, want ask-1 alone", requests)
		}
		requests, third := l.post(`"requestState":"` + second + `"`).round() // no answer at all
		if _, ok := requests["ask-1"]; !ok || len(requests) != 1 {
			t.Fatalf("asked again: %v, want ask-1 alone", requests)
		}
		l.post(retry(second, `{"ask-1":{"action":"accept"}}`)).fault(-32602, "already used")
		got := fmt.Sprint(l.post(retry(third, `{"ask-1":{"action":"accept"},"ask-2":{"action":"accept"}}`)).result())
		if !strings.Contains(got, "decline") || !strings.Contains(got, "accept") {
			t.Errorf("the answers are %s", got)
		}
		if diff := cmp.Diff([]string{"the request state was already used"}, l.refusals()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRetryTwice(t *testing.T) {
	release := make(chan struct{})
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		a := elicit(ctx, c, "go?")
		select {
		case <-release:
			return say(a)
		case <-ctx.Done():
			return call.Result{}, ctx.Err()
		}
	}
	withParking(t, h, func(l *parkingServer) {
		release = make(chan struct{})
		first := l.post("")
		gathered()
		_, state := first.round()
		answer := retry(state, `{"ask-1":{"action":"accept"}}`)
		second, third := l.post(answer), l.post(retry(state, `{"ask-1":{"action":"decline"}}`))
		gone := l.post(answer)
		gone.cancel() // the call goes on for the other requests
		synctest.Wait()
		close(release)
		for _, r := range []*reply{second, third} {
			if got := r.result(); got != `{"action":"accept"}` {
				t.Errorf("got %v, want the running call's answer", got)
			}
		}
		l.post(answer).fault(-32602, "already used")
		if diff := cmp.Diff([]string{"there is no such call: it has ended, or its result was given out"}, l.refusals()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestConcurrentCallsOfOneClient(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		return say(string(c.Params) + elicit(ctx, c, "which?"))
	}
	withParking(t, h, func(l *parkingServer) {
		var states []string
		for i := range 3 {
			r := l.postAs(call.Anonymous, allCaps, fmt.Sprintf(`{"i":%d}`, i), "")
			gathered()
			_, state := r.round()
			states = append(states, state)
		}
		l.postAs(call.Anonymous, allCaps, `{"i":1}`, retry(states[0], `{"ask-1":{"action":"accept"}}`)).fault(-32602, "not issued for this request")
		for i, state := range states {
			r := l.postAs(call.Anonymous, allCaps, fmt.Sprintf(`{"i":%d.0}`, i), retry(state, `{"ask-1":{"action":"accept"}}`))
			if got := fmt.Sprint(r.result()); !strings.Contains(got, fmt.Sprintf(`"i":%d`, i)) {
				t.Errorf("call %d ended with %v", i, got)
			}
		}
	})
}

func TestTooManyParkedCalls(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		for i := range 4 {
			r := l.postAs(call.Anonymous, allCaps, fmt.Sprintf(`{"i":%d}`, i), "")
			gathered()
			if i < 3 {
				r.round()
			} else if got := r.result(); got != `{"action":"cancel"}` {
				t.Errorf("the question over the bound got %v", got)
			}
		}
		other := l.postAs(&call.Principal{Subject: "bob", AuthMethod: "jwt"}, allCaps, `{}`, "")
		gathered()
		other.round()
	})
}

// A single anonymous client must not park so many calls that others cannot.
func TestParkedCallsAreSharedFairly(t *testing.T) {
	const most = 3 // see withLot
	// parks returns how many calls the client can park.
	parks := func(l *parkingServer) (n int) {
		for n < 2*most {
			r := l.post("")
			gathered()
			if result, _ := r.message()["result"].(map[string]any); result["resultType"] != "input_required" {
				return n
			}
			n++
		}
		return n
	}
	for _, tt := range []struct {
		name   string
		client func(l *parkingServer, n int)
	}{
		{"addresses", func(l *parkingServer, n int) { l.remote = fmt.Sprintf("192.0.2.%d:1", n) }},
		{"programs on this machine", func(l *parkingServer, n int) {
			l.remote, l.info = "127.0.0.1:1", fmt.Sprintf(`{"name":"program %d","version":"1"}`, n)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withParking(t, askOnce, func(l *parkingServer) {
				total := 0
				for n := range parkedShares - 2 {
					tt.client(l, n)
					got := parks(l)
					total += got
					if got != most && got != 0 { // two clients may have the same of 1024 shares
						t.Errorf("client %d parks %d calls, want %d", n, got, most)
					}
				}
				if total < most*(parkedShares-4) {
					t.Errorf("all clients park %d calls", total)
				}
				for n := range 2 * parkedShares {
					tt.client(l, 100+n)
					total += parks(l)
				}
				if total >= most*parkedShares {
					t.Errorf("all clients park %d calls, want less than %d", total, most*parkedShares)
				}
			})
		})
	}
}

func TestClientThatNeverComesBack(t *testing.T) {
	var got string
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		got = elicit(context.WithoutCancel(ctx), c, "there?")
		<-ctx.Done()
		return call.Result{}, ctx.Err()
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		time.Sleep(parkTTL)
		if diff := cmp.Diff([]string{park.ErrExpired.Error()}, l.causes()); diff != "" || got != "error: "+call.ErrLapsed.Error() {
			t.Errorf("%s the ask got %s", diff, got)
		}
		l.post(retry(state, `{"ask-1":{"action":"accept"}}`)).fault(-32602, "expired")
		if diff := cmp.Diff([]string{bridge.ErrExpired.Error()}, l.refusals()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResultThatComesWhileParked(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // the upstream gives up
		defer cancel()
		return say(elicit(ctx, c, "quick?"))
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		time.Sleep(2 * time.Minute)
		second := l.post(retry(state, `{"ask-1":{"action":"accept"}}`))
		if got := second.result(); got != "error: context deadline exceeded" {
			t.Errorf("got %v, want the result that came meanwhile", got)
		}
		l.post(retry(state, `{}`)).fault(-32602, "already used")

		kept := l.post("")
		gathered()
		kept.round()
		time.Sleep(parkTTL + time.Second) // no retry comes for this one
	})
}

func TestAskThatComesWhileParked(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		var late string
		var wg sync.WaitGroup
		wg.Go(func() { time.Sleep(time.Second); late = elicit(ctx, c, "late") })
		early := elicit(ctx, c, "early")
		wg.Wait()
		return say(early + late)
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		time.Sleep(time.Minute)
		// The client cannot answer an ask that it has not got, even if it knows the key.
		requests, next := l.post(retry(state, `{"ask-1":{"action":"accept"}}`)).round()
		if _, ok := requests["ask-2"]; !ok || len(requests) != 1 {
			t.Fatalf("requests are %v, want ask-2", requests)
		}
		if got := l.post(retry(next, `{"ask-2":{"action":"decline"}}`)).result(); got != `{"action":"accept"}{"action":"decline"}` {
			t.Errorf("got %v", got)
		}
	})
}

func TestDisconnects(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		a := elicit(ctx, c, "there?")
		<-ctx.Done()
		return say(a)
	}
	t.Run("before the question", func(t *testing.T) {
		withParking(t, func(ctx context.Context, c *call.Call) (call.Result, error) {
			<-ctx.Done()
			return call.Result{}, ctx.Err()
		}, func(l *parkingServer) {
			l.post("").cancel()
			if diff := cmp.Diff([]string{errClientGone.Error()}, l.causes()); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("of the retry", func(t *testing.T) {
		withParking(t, h, func(l *parkingServer) {
			first := l.post("")
			gathered()
			_, state := first.round()
			first.cancel() // the end of the first request does not cancel the call
			if got := l.causes(); got != nil {
				t.Fatalf("cancelled by the end of the first request: %v", got)
			}
			second := l.post(retry(state, `{"ask-1":{"action":"accept"}}`))
			second.cancel()
			if diff := cmp.Diff([]string{errClientGone.Error()}, l.causes()); diff != "" {
				t.Error(diff)
			}
			l.post(retry(state, `{"ask-1":{"action":"accept"}}`)).fault(-32602, "already used")
		})
	})
}

func TestDrainEndsParkedCalls(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		return say(elicit(context.WithoutCancel(ctx), c, "a") + elicit(context.WithoutCancel(ctx), c, "b"))
	}
	withParking(t, h, func(l *parkingServer) {
		parked := l.post("")
		gathered()
		_, state := parked.round()
		resumed := l.postAs(call.Anonymous, allCaps, `{}`, "")
		l.s.Drain()
		if diff := cmp.Diff([]string{errStopped.Error()}, l.causes()); diff != "" {
			t.Error(diff)
		}
		l.post(retry(state, `{}`)).fault(-32603, "takes no new calls")
		gathered()
		gathered() // one for each ask
		if got := resumed.result(); got != `{"action":"cancel"}{"action":"cancel"}` {
			t.Errorf("an ask during the drain got %v", got)
		}
	})
}

func TestQuestionsDuringADrainOfACallThatWasParked(t *testing.T) {
	var more chan struct{}
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		a := elicit(ctx, c, "a")
		<-more
		return say(a + elicit(ctx, c, "b"))
	}
	withParking(t, h, func(l *parkingServer) {
		more = make(chan struct{})
		first := l.post("")
		gathered()
		_, state := first.round()
		second := l.post(retry(state, `{"ask-1":{"action":"accept"}}`))
		l.s.Drain()
		close(more)
		gathered()
		if got := second.result(); got != `{"action":"accept"}{"action":"cancel"}` {
			t.Errorf("got %v", got)
		}
	})
}

func TestStopEndsRunningCalls(t *testing.T) {
	withParking(t, func(ctx context.Context, _ *call.Call) (call.Result, error) {
		<-ctx.Done()
		return call.Result{}, ctx.Err()
	}, func(l *parkingServer) {
		r := l.post("")
		l.stop()
		r.fault(-32603, errStopped.Error())
	})
}

func TestEachRequestGetsItsOwnProgress(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		note := func(n int) {
			c.Back.Notify(wire.NoteProgress, wire.Raw(fmt.Sprintf(`{"progressToken":"one","progress":%d}`, n)))
			c.Back.Notify(wire.NoteMessage, wire.Raw(fmt.Sprintf(`{"level":"info","data":%d}`, n)))
		}
		note(1)
		go func() { time.Sleep(time.Second); note(2) }() // while parked
		elicit(ctx, c, "more?")
		note(3)
		return say(nil)
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post(`META "progressToken":"one","io.modelcontextprotocol/logLevel":"debug";`)
		gathered()
		_, state := first.round()
		time.Sleep(2 * time.Second)
		second := l.post(`META "progressToken":2;` + retry(state, `{"ask-1":{"action":"accept"}}`))
		one, two := first.text(), second.text()
		if !strings.Contains(one, `"progressToken":"one","progress":1`) || !strings.Contains(one, `"data":1`) || strings.Contains(one, `"progress":2`) {
			t.Errorf("the first stream is %s", one)
		}
		if !strings.Contains(two, `"progressToken":2,"progress":3`) || strings.Contains(two, `"progress":2`) || strings.Contains(two, `"data"`) {
			t.Errorf("the second stream is %s", two)
		}

		again := l.post(`META "progressToken":"one";`)
		gathered()
		_, state = again.round()
		time.Sleep(2 * time.Second)
		if quiet := l.post(retry(state, `{"ask-1":{"action":"accept"}}`)).text(); strings.Contains(quiet, "progress") {
			t.Errorf("a request that asked for no progress got %s", quiet)
		}
	})
}

func TestClientsThatAreNotAskedAreNotParked(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		for caps, want := range map[string]string{
			`{}`:                         `{"action":"cancel"}`,
			`{"sampling":{}}`:            `{"action":"cancel"}`,
			`{"elicitation":{"url":{}}}`: "error: the client did not declare this mode of elicitation (-32602)",
		} {
			if got := l.postAs(call.Anonymous, caps, `{}`, "").result(); got != want {
				t.Errorf("with %s the question got %v, want %s", caps, got, want)
			}
		}
	})
}

func TestEachRequestDeclaresItsOwnCapabilities(t *testing.T) {
	h := func(ctx context.Context, c *call.Call) (call.Result, error) {
		a, b := "", ""
		var wg sync.WaitGroup
		wg.Go(func() { a = elicit(ctx, c, "form?") })
		wg.Go(func() { b = elicit(ctx, c, "form?") })
		wg.Wait()
		return say(a + b + elicit(ctx, c, "more?"))
	}
	withParking(t, h, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		second := l.postAs(call.Anonymous, `{"roots":{}}`, `{"a":1,"b":[1.0,"x"]}`, retry(state, `{"ask-1":{"action":"cancel"}}`))
		if got := second.result(); got != strings.Repeat(`{"action":"cancel"}`, 3) {
			t.Errorf("got %v: an ask was repeated that the client declares no more", got)
		}
	})
}

func TestResumingIsPermittedAnew(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		l.refuse = wire.Errorf(wire.CodeInvalidParams, "unknown tool")
		l.post(retry(state, `{"ask-1":{"action":"accept"}}`)).fault(-32602, "unknown tool")
		if diff := cmp.Diff([]string{"the call is not permitted any more, or not now"}, l.refusals()); diff != "" {
			t.Error(diff)
		}
		l.refuse = nil
		if got := l.post(retry(state, `{"ask-1":{"action":"accept"}}`)).result(); got != `{"action":"accept"}` {
			t.Errorf("got %v", got)
		}
	})
}

func TestAttacksOnParkedStates(t *testing.T) {
	bob := &call.Principal{Subject: "bob", AuthMethod: "jwt"}
	withParking(t, askOnce, func(l *parkingServer) {
		first := l.post("")
		gathered()
		_, state := first.round()
		again := func(s string) string { return retry(s, `{"ask-1":{"action":"accept"}}`) }
		flipped := []byte(state)
		at := len(flipped) - 5
		flipped[at] = map[bool]byte{true: 'B', false: 'A'}[flipped[at] == 'A']
		b := bridge.BindingOf(&call.Call{Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"t","arguments":{"a":1,"b":[1.0,"x"]}}`), Principal: call.Anonymous})
		elsewhere := l.s.options.Parking.Sealer.Seal(bridge.State{Kind: bridge.Parked, Recipient: "there", Round: 1, Expires: time.Now().Add(time.Hour)}, b)
		invented := bridge.NewSealer().Seal(bridge.State{Kind: bridge.Parked, Recipient: "here", Round: 1, Expires: time.Now().Add(time.Hour)}, b)
		for _, tc := range []struct {
			name   string
			send   func() *reply
			reason error
		}{
			{"tampered", func() *reply { return l.post(again(string(flipped))) }, bridge.ErrTampered},
			{"sealed with another key", func() *reply { return l.post(again(invented)) }, bridge.ErrUnknownKey},
			{"cut", func() *reply { return l.post(again(state[:8])) }, bridge.ErrMalformed},
			{"another principal", func() *reply { return l.postAs(bob, allCaps, `{"a":1,"b":[1.0,"x"]}`, again(state)) }, bridge.ErrPrincipal},
			{"another profile", func() *reply {
				return l.postAs(call.Anonymous.In("coding"), allCaps, `{"a":1,"b":[1.0,"x"]}`, again(state))
			}, bridge.ErrPrincipal},
			{"other arguments", func() *reply { return l.postAs(call.Anonymous, allCaps, `{"a":1,"b":[1.0,"y"]}`, again(state)) }, bridge.ErrRequest},
			{"of another replica", func() *reply { return l.post(again(elsewhere)) }, errors.New("the call is parked at another replica")},
		} {
			tc.send().fault(-32602, "invalid requestState: it was not issued for this request, or has expired")
			if diff := cmp.Diff([]string{tc.reason.Error()}, l.refusals()); diff != "" {
				t.Errorf("%s: %s", tc.name, diff)
			}
		}
		// None of these requests has used the state. The spelling of the arguments does not matter.
		if got := l.postAs(call.Anonymous, allCaps, `{"b":[1,"\u0078"],"a":10e-1}`, again(state)).result(); got != `{"action":"accept"}` {
			t.Errorf("got %v", got)
		}
		l.post(again(state)).fault(-32602, "already used")
	})
}
