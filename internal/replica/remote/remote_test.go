package remote

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// pair starts two replicas with one store. prepare gets the one that calls are passed to, "there".
func pair(t *testing.T, prepare func(there *replica.Replicas)) (here *replica.Replicas, stopThere func()) {
	t.Helper()
	s := &storetest.Memory{}
	here = replica.New(replica.Options{Store: s, Name: "here"})
	there := replica.New(replica.Options{Store: s, Name: "there"})
	prepare(there)
	run := func(r *replica.Replicas) func() {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		stop := func() { cancel(); <-done }
		t.Cleanup(stop)
		return stop
	}
	run(here)
	stopThere = run(there)
	synctest.Wait()
	return here, stopThere
}

// back is the back channel of a client.
type back struct {
	notes []string
	ask   func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)
}

func (b *back) Notify(method string, params wire.Raw) {
	b.notes = append(b.notes, method+string(params))
}

func (b *back) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	return b.ask(ctx, method, params)
}

func exampleCall(b call.BackChannel) *call.Call {
	return &call.Call{
		ID: "r1", Method: "tools/call", Params: wire.Raw("{ \"name\" : \"x<>\" }"), Remote: "192.0.2.1:7", By: "ann", WithoutGrants: true, ShareKey: 1<<63 + 5, LogLevel: 3, LevelUnset: true,
		Session: "p12", TakesRounds: true, Depth: 2, Back: b, TraceContext: &call.TraceContext{Traceparent: "00-1"},
		Principal: &call.Principal{
			Profile: "p", Subject: "ann", Issuer: "https://i", Groups: []string{"g"}, Scopes: []string{"s"}, AuthMethod: "jwt", KeyID: "k",
			Claims: wire.Raw(`{ "a":1}`), Expires: time.Unix(5, 7).UTC(), Token: call.NewToken("secret"),
		},
		Client: &call.Client{Key: "k", Sessionless: true, Revision: wire.Rev20251125, Info: wire.Raw(`{ }`), Capabilities: wire.Raw(`{"roots": {}}`)},
	}
}

// Every member of a call arrives, byte for byte. Members that are added later fail here until they are
// passed on, or listed as those that stay.
func TestCallArrives(t *testing.T) {
	c := exampleCall(nil)
	to, got, err := decodeCall(encodeCall("up", c))
	if err != nil || to != "up" {
		t.Fatal(to, err)
	}
	if got.Principal.Token.Reveal() != "secret" {
		t.Error("the token is lost")
	}
	got.Principal.Token, c.Principal.Token = call.Token{}, call.Token{}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got %+v %+v %+v\nwant %+v %+v %+v", got, got.Principal, got.Client, c, c.Principal, c.Client)
	}
	stay := map[string]bool{"Back": true, "Trace": true}
	v := reflect.ValueOf(*exampleCall(nil))
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !stay[name] {
			t.Errorf("the example has no %s: pass it on, or list it as one that stays", name)
		}
	}
	_, without, _ := decodeCall(encodeCall("", &call.Call{Method: "m", Principal: call.Local, Client: &call.Client{Revision: wire.Rev20241105}}))
	if without == nil || without.Params != nil || without.Principal.Claims != nil || without.Client.Info != nil || !without.Principal.Expires.IsZero() {
		t.Errorf("absent members arrive as %+v", without)
	}
}

func TestResultsAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var result call.Result
		var fails error
		here, stop := pair(t, func(there *replica.Replicas) {
			Handle(there, "x", func(context.Context, string, *call.Call) (call.Result, error) { return result, fails })
		})
		do := func() (call.Result, error) { return Do(t.Context(), here, "there", "x", "", exampleCall(&back{})) }

		result = call.Result{Raw: wire.Raw(`{ "content":[ ] }`), Revision: wire.Rev20250618, Extra: `"x":1`}
		if got, err := do(); err != nil || !reflect.DeepEqual(got, result) {
			t.Errorf("%+v, %v", got, err)
		}
		result = call.Result{Revision: wire.Rev20250618}
		plain := &wire.Error{Code: 7, Message: "m", Data: wire.Raw(`{ }`), Raw: wire.Raw(`{"code": 7}`), Extra: `"y":2`}
		for _, fails = range []error{plain, &call.Refused{Err: plain, RetryAfter: time.Second, Scopes: []string{"s"}}} {
			if got, err := do(); !reflect.DeepEqual(err, fails) || got.Revision != result.Revision {
				t.Errorf("%+v, %#v, want %#v", got, err, fails)
			}
		}
		fails = ErrNotHeld
		if _, err := do(); !errors.Is(err, ErrNotHeld) || Begun(err) {
			t.Errorf("%v", err)
		}
		fails = errors.New("a bug")
		if _, err := do(); err == nil || !Begun(err) {
			t.Errorf("%v", err)
		}
		stop()
		synctest.Wait()
		if _, err := do(); !errors.Is(err, replica.ErrGone) || Begun(err) {
			t.Errorf("%v", err)
		}
	})
}

// The times that a call has spent in its stages at the other replica are added to those here, also if it fails there.
func TestTimesOfStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails error
		here, _ := pair(t, func(there *replica.Replicas) {
			Handle(there, "x", func(_ context.Context, _ string, c *call.Call) (call.Result, error) {
				c.Trace = new(call.Trace)
				c.Trace.Begin(time.Now, nil)
				c.Trace.Add(call.StageConnect, 2*time.Second)
				c.Trace.Add(call.StageUpstream, time.Second)
				return call.Result{Raw: wire.Raw(`{}`)}, fails
			})
		})
		c := exampleCall(&back{})
		if _, err := Do(t.Context(), here, "there", "x", "", c); err != nil { // whose stages nobody measures
			t.Error(err)
		}
		c.Trace = new(call.Trace)
		c.Trace.Begin(time.Now, nil)
		for _, fails = range []error{nil, wire.Errorf(wire.CodeInternal, "too slow")} {
			if _, err := Do(t.Context(), here, "there", "x", "", c); (err != nil) != (fails != nil) {
				t.Error(err)
			}
		}
		want := map[call.Stage]time.Duration{call.StageConnect: 4 * time.Second, call.StageUpstream: 2 * time.Second}
		for s := range call.NumStages {
			if got := c.Trace.Spent(s); got != want[s] {
				t.Errorf("%s: %s, want %s", s, got, want[s])
			}
		}
	})
}

// Notifications and asks reach the client in order, its answers the other replica.
func TestBackChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := pair(t, func(there *replica.Replicas) {
			Handle(there, "x", func(ctx context.Context, to string, c *call.Call) (call.Result, error) {
				c.Back.Notify("one", wire.Raw(`{ "a":1}`))
				c.Back.Notify("two", nil)
				got, err := c.Back.Ask(ctx, "roots/list", wire.Raw(`{ }`))
				if err != nil {
					return call.Result{}, err
				}
				_, err = c.Back.Ask(ctx, "refuse", nil)
				if rpc, ok := errors.AsType[*wire.Error](err); !ok || rpc.Code != 9 {
					t.Errorf("the refusal is %v", err)
				}
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if _, err = c.Back.Ask(short, "slow", nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the slow ask ends with %v", err)
				}
				return call.Result{Raw: got}, nil
			})
		})
		withdrawn := make(chan struct{})
		b := &back{ask: func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
			switch method {
			case "refuse":
				if params != nil {
					t.Errorf("absent params arrive as %s", params)
				}
				return nil, wire.Errorf(9, "no")
			case "slow":
				<-ctx.Done()
				close(withdrawn)
				return nil, ctx.Err()
			}
			return wire.Raw(`{"answer to": "` + method + string(params) + `"}`), nil
		}}
		got, err := Do(t.Context(), here, "there", "x", "", exampleCall(b))
		if string(got.Raw) != `{"answer to": "roots/list{ }"}` || err != nil || strings.Join(b.notes, " ") != `one{ "a":1} two` {
			t.Errorf("%s, %v, %q", got.Raw, err, b.notes)
		}
		<-withdrawn
	})
}

// When the client cancels, the call ends at the other replica, and asks that run end here.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		here, _ := pair(t, func(there *replica.Replicas) {
			Handle(there, "x", func(ctx context.Context, _ string, c *call.Call) (call.Result, error) {
				_, err := c.Back.Ask(ctx, "slow", nil)
				ended <- ctx.Err()
				return call.Result{}, err
			})
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := false
		b := &back{ask: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
			asked = true
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		if _, err := Do(ctx, here, "there", "x", "", exampleCall(b)); !errors.Is(err, context.DeadlineExceeded) || !asked {
			t.Errorf("the call ends with %v, asked: %t", err, asked)
		}
		if err := <-ended; err == nil {
			t.Error("the context of the call did not end at the other replica")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encodeCall("up", exampleCall(nil)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, c, err := decodeCall(data); err == nil && (c.Principal == nil || c.Client == nil || c.Method == "") {
			t.Errorf("%+v", c)
		}
	})
}
