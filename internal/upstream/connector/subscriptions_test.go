package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

const (
	subscribable       = `{"resources":{"subscribe":true}}`
	legacySubscribable = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true,"listChanged":true},"logging":{}},"serverInfo":{"name":"fake","version":"1"}}`
	modernSubscribable = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + subscribable + `,"ttlMs":0,"cacheScope":"private"}`
)

// subscriptions is a legacy server that records its subscriptions.
type subscriptions struct {
	mu  sync.Mutex
	log []string // "+uri" and "-uri", in order of arrival
}

func (s *subscriptions) handle(l *upstreamtest.Instance, m wire.Message) {
	uri := wire.ValueOf(m.Params).Get("uri").Str()
	switch m.Method {
	case wire.MethodDiscover:
		l.Refuse(m, wire.CodeMethodNotFound, "method not found")
	case wire.MethodInitialize:
		l.Result(m, legacySubscribable)
	case wire.MethodResourcesList:
		l.Result(m, `{"resources":[]}`)
	case wire.MethodTemplatesList:
		l.Result(m, `{"resourceTemplates":[]}`)
	case wire.MethodSetLevel:
		l.Result(m, `{}`)
	case wire.MethodResourcesSubscribe:
		if uri == "x:bad" {
			l.Refuse(m, wire.CodeResourceNotFound, "no such resource")
			return
		}
		s.note("+" + uri)
		if uri == "x:slow" {
			return
		}
		l.Result(m, `{}`)
	case wire.MethodResourcesUnsub:
		s.note("-" + uri)
		l.Result(m, `{}`)
	}
}

func (s *subscriptions) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

// take returns the requests since the last call of take.
func (s *subscriptions) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.log, " ")
	s.log = nil
	return out
}

func TestSubscribeOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		server := &upstreamtest.Server{Handle: s.handle}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := r.Subscribe(t.Context(), "x:a"); err != nil {
					t.Errorf("subscribe: %v", err)
				}
			})
		}
		wg.Wait()
		upstreamtest.Equal(t, "requests", s.take(), "+x:a")
		for range 49 {
			r.Unsubscribe("x:a")
		}
		synctest.Wait()
		upstreamtest.Equal(t, "requests while one subscriber is left", s.take(), "")
		server.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a/b","k":1}}`)
		synctest.Wait()
		upstreamtest.Equal(t, "notifications", strings.Join(r.watch.noted(), "\n"), `notifications/resources/updated {"uri":"x:a/b","k":1}`)
		r.Unsubscribe("x:a")
		synctest.Wait()
		upstreamtest.Equal(t, "requests after the last unsubscribe", s.take(), "-x:a")
		r.Unsubscribe("x:a") // an extra call has no effect
		synctest.Wait()
		upstreamtest.Equal(t, "requests after an extra unsubscribe", s.take(), "")
	})
}

func TestSubscribeRefused(t *testing.T) {
	for _, tt := range []struct {
		name, uri, want string
		handle          func(*upstreamtest.Instance, wire.Message)
		takes           time.Duration
	}{
		{"by the server", "x:bad", `{"code":-32002,"message":"no such resource"}`, (&subscriptions{}).handle, 0},
		{"no answer", "x:slow", `{"code":-32603,"message":"upstream \"files\": the server did not answer within 10s","data":{"upstream":"files","reason":"the server did not answer within 10s","since":"2000-01-01T00:00:00Z","retryable":true}}`,
			(&subscriptions{}).handle, subscribeTimeout},
		{"no such capability", "x:a", `{"code":-32601,"message":"method not found: \"resources/subscribe\""}`, upstreamtest.Legacy(nil), 0},
		{"no such capability, modern", "x:a", `{"code":-32601,"message":"method not found: \"resources/subscribe\""}`, upstreamtest.Modern(nil), 0},
		{"left out of the acknowledgement", "x:bad",
			`{"code":-32002,"message":"the server does not tell of updates of this resource","data":{"uri":"x:bad"}}`, (&listens{}).handle, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &upstreamtest.Server{Handle: tt.handle}
				r := start(t, setup{Pipe: server.Pipe})
				r.watch.wait(t, isReady)
				began := time.Now()
				err := r.Subscribe(t.Context(), tt.uri)
				refusal, ok := errors.AsType[*wire.Error](err)
				if !ok {
					t.Fatalf("error %v", err)
				}
				upstreamtest.Equal(t, "error", string(refusal.Append(nil)), tt.want)
				upstreamtest.Equal(t, "duration", time.Since(began), tt.takes)
				synctest.Wait()
				upstreamtest.Equal(t, "subscriptions afterwards", len(r.subscribedURIs()), 0)
			})
		})
	}
}

// A cancelled subscribe call leaves no unneeded subscription at the server.
func TestSubscribeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		var held []wire.Message
		server := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodResourcesSubscribe {
				held = append(held, m)
				return
			}
			s.handle(l, m)
		}}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Subscribe(ctx, "x:a"); err != context.DeadlineExceeded {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		server.Instance(1).Result(held[0], `{}`)
		synctest.Wait()
		upstreamtest.Equal(t, "requests", s.take(), "-x:a")
	})
}

// The gateway subscribes again after a reconnection. It reports one update for each
// resource and one change of each list, because notifications may have been lost.
func TestResubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		server := &upstreamtest.Server{Handle: s.handle}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		for _, uri := range []string{"x:a", "x:b"} {
			if err := r.Subscribe(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
		s.take()
		server.Instance(1).Quit()
		r.watch.wait(t, isDown)
		r.Unsubscribe("x:b") // while the server is not connected
		time.Sleep(time.Minute)
		synctest.Wait()
		upstreamtest.Equal(t, "requests", s.take(), "+x:a")
		upstreamtest.Equal(t, "notifications", strings.Join(r.watch.noted(), "\n"), `notifications/resources/updated {"uri":"x:a"}`)
		upstreamtest.Equal(t, "changes of the resource list", r.Snapshot().Changes.Resources, 1)
		if err := r.Subscribe(t.Context(), "x:a"); err != nil {
			t.Error(err)
		}
		upstreamtest.Equal(t, "requests for another subscriber", s.take(), "")
	})
}

// The gateway retries a subscription that a server refuses after a reconnection.
// Clients that were already told the subscription succeeded are not notified.
func TestResubscribeAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		refusals := 0
		server := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if l.N == 2 && m.Method == wire.MethodResourcesSubscribe && refusals < 3 {
				refusals++
				l.Refuse(m, wire.CodeInternal, "not yet")
				return
			}
			s.handle(l, m)
		}}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		if err := r.Subscribe(t.Context(), "x:a"); err != nil {
			t.Fatal(err)
		}
		server.Instance(1).Quit()
		r.watch.wait(t, isDown)
		time.Sleep(time.Minute)
		synctest.Wait()
		upstreamtest.Equal(t, "refusals", refusals, 3)
		upstreamtest.Equal(t, "requests", s.take(), "+x:a +x:a")
		upstreamtest.Equal(t, "notifications", strings.Join(r.watch.noted(), "\n"), `notifications/resources/updated {"uri":"x:a"}`)
	})
}

// listens is a modern server that records its subscriptions.
type listens struct {
	mu  sync.Mutex
	log []string
}

func (s *listens) handle(l *upstreamtest.Instance, m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Method {
	case wire.MethodInitialize:
		l.Refuse(m, wire.CodeMethodNotFound, "method not found")
	case wire.MethodDiscover:
		l.Result(m, modernSubscribable)
	case wire.MethodResourcesList:
		l.Result(m, `{"resources":[]}`)
	case wire.MethodTemplatesList:
		l.Result(m, `{"resourceTemplates":[]}`)
	case wire.NoteCancelled:
		s.log = append(s.log, "close "+wire.ValueOf(m.Params).Get("requestId").Str()+string(wire.ValueOf(m.Params).Get("requestId").Raw()))
	case wire.MethodListen:
		var uris []string
		for el := range wire.ValueOf(m.Params).Get("notifications", "resourceSubscriptions").Elements() {
			if el.IsString("x:poison") {
				s.log = append(s.log, "refuse")
				l.Refuse(m, wire.CodeInvalidParams, "no such resource")
				return
			}
			if !el.IsString("x:bad") {
				uris = append(uris, string(el.Raw()))
			}
		}
		s.log = append(s.log, "open "+strings.Join(uris, ","))
		l.Line(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"resourceSubscriptions":[%s]}}}`,
			m.ID, strings.Join(uris, ","))
	}
}

func (s *listens) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.log, "; ")
	s.log = nil
	return out
}

// Over a line transport each resource has its own subscription. A server that
// records subscriptions by connection would drop all of them when one ends.
func TestModernSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &listens{}
		server := &upstreamtest.Server{Handle: s.handle}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		upstreamtest.Equal(t, "requests at the start", s.take(), "")
		subscribe := func(uri string) {
			t.Helper()
			if err := r.Subscribe(t.Context(), uri); err != nil {
				t.Errorf("subscribe to %s: %v", uri, err)
			}
			synctest.Wait()
		}
		subscribe("x:a")
		upstreamtest.Equal(t, "requests for the first resource", s.take(), `open "x:a"`)
		subscribe("x:b")
		upstreamtest.Equal(t, "requests for the second resource", s.take(), `open "x:b"`)
		subscribe("x:b")
		upstreamtest.Equal(t, "requests for another subscriber of it", s.take(), "")
		r.Unsubscribe("x:a")
		synctest.Wait()
		first := server.Instance(1).Wait(t, func(m wire.Message) bool { return m.Method == wire.MethodListen })
		upstreamtest.Equal(t, "requests after an unsubscribe", s.take(), "close "+first.ID.String())
		r.Unsubscribe("x:b")
		r.Unsubscribe("x:b")
		synctest.Wait()
		if got := s.take(); !strings.HasPrefix(got, `close `) {
			t.Errorf("none: %s", got)
		}
		upstreamtest.Equal(t, "notifications", len(r.watch.noted()), 0)
	})
}

// The gateway subscribes to each resource separately if a server refuses a whole
// subscription because of one resource.
func TestModernSubscribeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &listens{}
		server := &upstreamtest.Server{Handle: s.handle}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		failed := make(map[string]bool)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, uri := range []string{"x:a", "x:b", "x:poison", "x:z"} {
			wg.Go(func() {
				err := r.Subscribe(t.Context(), uri)
				mu.Lock()
				defer mu.Unlock()
				failed[uri] = err != nil
			})
		}
		wg.Wait()
		for uri, no := range failed {
			upstreamtest.Equal(t, uri, no, uri == "x:poison")
		}
		synctest.Wait()
		s.take()
		if err := r.Subscribe(t.Context(), "x:c"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		upstreamtest.Equal(t, "requests for the next resource", s.take(), `open "x:c"`)
	})
}

// When the server ends a subscription, the gateway opens it again with the same
// resources and reports them as updated.
func TestModernResubscribe(t *testing.T) {
	for name, end := range map[string]func(l *upstreamtest.Instance, listen wire.Message){
		"a result": func(l *upstreamtest.Instance, listen wire.Message) { l.Result(listen, `{"resultType":"complete"}`) },
		"a cancellation": func(l *upstreamtest.Instance, listen wire.Message) {
			l.Line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, listen.ID)
		},
		"an error":  func(l *upstreamtest.Instance, listen wire.Message) { l.Refuse(listen, wire.CodeInternal, "enough") },
		"a restart": func(l *upstreamtest.Instance, _ wire.Message) { l.Quit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &listens{}
				server := &upstreamtest.Server{Handle: s.handle}
				r := start(t, setup{Pipe: server.Pipe})
				r.watch.wait(t, isReady)
				for _, uri := range []string{"x:a", "x:b"} {
					if err := r.Subscribe(t.Context(), uri); err != nil {
						t.Fatal(err)
					}
				}
				s.take()
				for _, uri := range []string{"x:a", "x:b"} {
					end(server.Instance(1), server.Instance(1).Wait(t, func(m wire.Message) bool {
						return m.Method == wire.MethodListen && strings.Contains(string(m.Params), uri)
					}))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				opened := strings.Split(s.take(), "; ")
				slices.Sort(opened)
				upstreamtest.Equal(t, "the server got", strings.Join(opened, "; "), `open "x:a"; open "x:b"`)
				got := r.watch.noted()
				slices.Sort(got)
				got = slices.Compact(got) // the report of a possibly lost update may come twice
				upstreamtest.Equal(t, "notifications", strings.Join(got, "\n"),
					"notifications/resources/updated {\"uri\":\"x:a\"}\nnotifications/resources/updated {\"uri\":\"x:b\"}")
			})
		})
	}
}

// After concurrent subscriptions and unsubscriptions the server has exactly the
// wanted subscriptions.
func TestSubscribeRaces(t *testing.T) {
	for name, handle := range map[string]func(*upstreamtest.Instance, wire.Message){"legacy": (&subscriptions{}).handle, "modern": (&listens{}).handle} {
		t.Run(name, func(t *testing.T) {
			server := &upstreamtest.Server{Handle: handle}
			r := start(t, setup{Pipe: server.Pipe})
			r.watch.wait(t, isReady)
			var wg sync.WaitGroup
			for n := range 8 {
				wg.Go(func() {
					for i := range 40 {
						uri := fmt.Sprintf("x:%d", (n+i)%5)
						if err := r.Subscribe(t.Context(), uri); err == nil {
							r.Unsubscribe(uri)
						}
						if n == 0 && i%20 == 10 {
							server.Instance(server.Starts()).Quit()
						}
					}
				})
			}
			wg.Wait()
			upstreamtest.Equal(t, "subscriptions", len(r.subscribedURIs()), 0)
			if err := r.Subscribe(t.Context(), "x:last"); err != nil {
				t.Errorf("subscribe after the concurrent calls: %v", err)
			}
		})
	}
}

// A modern request names its own log level, as does a call that another replica has passed on. The gateway sets the level of a legacy
// server before the request, and resets it when no client has asked for log messages
// for a while.
func TestLevelOfModernRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		r.SetLogLevel(wire.LevelWarning)
		synctest.Wait()
		do := func(level wire.Level, rev wire.Revision) {
			t.Helper()
			cl := upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})
			cl.LogLevel, cl.Client = level, &call.Client{Key: "a", Revision: rev}
			upstreamtest.Equal(t, "outcome", upstreamtest.Outcome(r.Do(t.Context(), cl)), `{"ok":1}`)
		}
		do(wire.LevelError, wire.Rev20251125) // a session's level comes by SetLogLevel
		do(wire.LevelError, wire.LatestModern)
		do(wire.LevelDebug, wire.LatestModern)
		do(wire.LevelInfo, wire.LatestModern)
		time.Sleep(requestLevelTime + time.Second)
		synctest.Wait()
		do(wire.LevelDebug, wire.Rev20251125) // another replica has passed it on, whose sessions this one does not know
		upstreamtest.Equal(t, "levels and calls", strings.Join(levelsAndCalls(server.Instance(1)), " "), "warning call call debug call call warning debug call")
	})
}

// A client that has set its session's level receives the log messages of its next
// call.
func TestLevelBeforeTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &upstreamtest.Server{Handle: upstreamtest.Legacy(upstreamtest.Echo)}
		r := start(t, setup{Pipe: server.Pipe})
		r.watch.wait(t, isReady)
		var want []string
		for _, level := range []wire.Level{wire.LevelInfo, wire.LevelError, wire.LevelDebug, wire.LevelDebug} {
			r.SetLogLevel(level)
			cl := upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})
			cl.LogLevel, cl.Client = level, &call.Client{Key: "a", Revision: wire.Rev20251125}
			upstreamtest.Equal(t, "outcome", upstreamtest.Outcome(r.Do(t.Context(), cl)), `{"ok":1}`)
			want = append(want, level.String(), "call")
		}
		want = slices.Delete(want, 6, 7) // the server already has this level
		upstreamtest.Equal(t, "levels and calls", strings.Join(levelsAndCalls(server.Instance(1)), " "), strings.Join(want, " "))
	})
}

// levelsAndCalls returns the log levels that the server received and "call" for each
// tool call, in order.
func levelsAndCalls(l *upstreamtest.Instance) (got []string) {
	for _, m := range l.Received() {
		switch m.Method {
		case wire.MethodSetLevel:
			got = append(got, wire.ValueOf(m.Params).Get("level").Str())
		case wire.MethodToolsCall:
			got = append(got, "call")
		}
	}
	return got
}
