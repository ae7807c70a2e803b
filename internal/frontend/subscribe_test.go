package frontend

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/wire"
)

// testSubscriptions are Subscriptions in which x:no does not exist, x:slow never answers,
// and x:now is updated before Subscribe returns.
type testSubscriptions struct {
	script *scriptHandler // records subscriptions

	mu    sync.Mutex
	set   map[*testSubscription]bool
	fails int // so many subscriptions fail first
}

type testSubscription struct {
	uri     string
	deliver func(uri string, params wire.Raw)
}

func (b *testSubscriptions) Subscribe(ctx context.Context, _ *call.Call, uri string, deliver func(string, wire.Raw)) (func(), error) {
	switch uri {
	case "x:no":
		return nil, wire.Errorf(wire.CodeResourceNotFound, "resource not found: %q", uri)
	case "x:slow":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p := &testSubscription{uri, deliver}
	b.mu.Lock()
	if b.fails > 0 {
		b.fails--
		b.mu.Unlock()
		return nil, wire.Errorf(wire.CodeInternal, "not now")
	}
	b.set[p] = true
	b.mu.Unlock()
	b.record("subscribe", uri)
	if uri == "x:now" {
		deliver(uri, wire.Raw(`{"uri":"x:now"}`))
	}
	return sync.OnceFunc(func() {
		b.mu.Lock()
		delete(b.set, p)
		b.mu.Unlock()
		b.record("unsubscribe", uri)
	}), nil
}

// record records a call, except for x:now: transcripts subscribe to it together with
// others, in any order.
func (b *testSubscriptions) record(what, uri string) {
	if b.script != nil && uri != "x:now" {
		b.script.record("%s %s", what, uri)
	}
}

func (b *testSubscriptions) updated(about, uri string) {
	b.mu.Lock()
	pins := slices.Collect(maps.Keys(b.set))
	b.mu.Unlock()
	for _, p := range pins { // without the lock, as the contract allows
		if p.uri == about {
			p.deliver(uri, wire.Raw(fmt.Sprintf(`{"k":1e400,"uri":%q,"_meta":{"m":1}}`, uri)))
		}
	}
}

// No subscription outlives its session.
func TestSubscriptionsEndWithTheirSession(t *testing.T) {
	b := &testSubscriptions{set: make(map[*testSubscription]bool)}
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Subscriptions: b})
	var wg sync.WaitGroup
	for i := range 50 {
		sess, err := s.sessions.Open(session.Config{
			Principal: call.Anonymous, Claims: session.Claims{Client: &call.Client{Key: fmt.Sprint(i), Revision: wire.LatestLegacy}},
			Log: s.newEventLog("", 0), RootsChanged: func() {},
		})
		if err != nil {
			t.Fatal(err)
		}
		request := func(method, uri string) {
			x := s.newExchange(context.Background(), sinkFunc(func([]byte) bool { return true }), sender{principal: call.Anonymous}, wire.IDOf("1"))
			defer x.Cancel(nil)
			x.sess, x.call.Method, x.call.Client, x.call.Principal = sess, method, sess.Client, call.Anonymous
			x.call.Params = wire.Raw(`{"uri":"` + uri + `"}`)
			x.answerSubscribe()
		}
		for n := range 4 {
			wg.Go(func() {
				for k := range 20 {
					request(wire.MethodResourcesSubscribe, fmt.Sprintf("x:%d", (n+k)%3))
					b.updated("x:0", "x:0")
					request(wire.MethodResourcesUnsub, fmt.Sprintf("x:%d", k%3))
				}
				request(wire.MethodResourcesSubscribe, "x:0")
			})
		}
		wg.Go(func() {
			for range i {
				runtime.Gosched()
			}
			s.sessions.Close(sess, session.ErrEnded)
		})
	}
	wg.Wait()
	if len(b.set) != 0 {
		t.Errorf("%d subscriptions are left", len(b.set))
	}
}

// talkingSubscriptions notify while they subscribe, as an upstream may.
type talkingSubscriptions struct{}

func (talkingSubscriptions) Subscribe(_ context.Context, c *call.Call, _ string, _ func(string, wire.Raw)) (func(), error) {
	c.Back.Notify(wire.NoteMessage, wire.Raw(`{"level":"error","data":1}`))
	c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":"t","progress":1}`))
	return func() {}, nil
}

// Nothing comes on a listen stream before its acknowledgement, and no log messages and
// progress at all (2026-07-28, basic/patterns/subscriptions).
func TestListenStreamsCarryNothingOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Subscriptions: talkingSubscriptions{}})
		r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:y"]}%s}}`, wire.EraModern)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = io.NopCloser(strings.NewReader(strings.Replace(string(body), `"_meta":{`, `"_meta":{"progressToken":"t","io.modelcontextprotocol/logLevel":"debug",`, 1)))
		r.Header.Set(wire.HeaderMethod, wire.MethodListen)
		w := &recorder{header: make(http.Header), done: make(chan struct{})}
		go func() {
			defer close(w.done)
			s.ServeHTTP(w, r)
		}()
		synctest.Wait()
		s.Drain()
		<-w.done
		events := eventsOf(t, w.written())
		if len(events) != 2 || !strings.Contains(string(events[0].Data), wire.NoteAcknowledged) || !strings.Contains(string(events[1].Data), `"result"`) {
			t.Errorf("the stream is %s", w.written())
		}
	})
}

// A malformed filter is refused with the name of its member, and not acknowledged as an empty
// one: the client would wait for notifications that never come.
func TestMalformedFilters(t *testing.T) {
	const boolean, texts = "a boolean", "an array of strings"
	for filter, want := range map[string][2]string{
		`"toolsListChanged":"yes"`:                             {"toolsListChanged", boolean},
		`"promptsListChanged":null`:                            {"promptsListChanged", boolean},
		`"toolsListChanged":true,"resourcesListChanged":1`:     {"resourcesListChanged", boolean},
		`"resourceSubscriptions":"memo:a"`:                     {"resourceSubscriptions", texts},
		`"resourceSubscriptions":["memo:a",{"uri":"memo:b"}]`:  {"resourceSubscriptions", texts},
		`"resourceSubscriptions":{"uri":"memo:a"}`:             {"resourceSubscriptions", texts},
		`"taskIds":[7]`:                                        {"taskIds", texts},
		`"toolsListChanged":false,"taskIds":["t"],"other":[7]`: {},
	} {
		params := wire.Raw(`{"notifications":{` + filter + `}}`)
		_, err := parseSubscription(params, wire.IDOf("1"))
		if want == [2]string{} {
			if err != nil {
				t.Errorf("%s: %v", filter, err)
			}
			continue
		}
		if message := "invalid params: notifications." + want[0] + " must be " + want[1]; err == nil || err.Code != wire.CodeInvalidParams || err.Message != message {
			t.Errorf("%s: %v, want %s", filter, err, message)
		}
	}
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":1}%s}}`, wire.EraModern)
	r.Header.Set(wire.HeaderMethod, wire.MethodListen)
	if w := do(s, r); !strings.Contains(w.Body.String(), "notifications.toolsListChanged must be a boolean") {
		t.Errorf("HTTP answers %s", w.Body)
	}
}
