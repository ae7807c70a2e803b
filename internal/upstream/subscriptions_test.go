package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

const (
	subscribable       = `{"resources":{"subscribe":true}}`
	legacySubscribable = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true,"listChanged":true},"logging":{}},"serverInfo":{"name":"fake","version":"1"}}`
	modernSubscribable = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + subscribable + `,"ttlMs":0,"cacheScope":"private"}`
)

// subscriptions is a legacy server that keeps track of what it was asked.
type subscriptions struct {
	mu  sync.Mutex
	log []string // "+uri" and "-uri", in order of arrival
}

func (s *subscriptions) handle(l *fakeLife, m wire.Message) {
	uri := wire.ValueOf(m.Params).Get("uri").Str()
	switch m.Method {
	case wire.MethodDiscover:
		l.refuse(m, wire.CodeMethodNotFound, "method not found")
	case wire.MethodInitialize:
		l.result(m, legacySubscribable)
	case wire.MethodResourcesList:
		l.result(m, `{"resources":[]}`)
	case wire.MethodTemplatesList:
		l.result(m, `{"resourceTemplates":[]}`)
	case wire.MethodSetLevel:
		l.result(m, `{}`)
	case wire.MethodResourcesSubscribe:
		if uri == "x:bad" {
			l.refuse(m, wire.CodeResourceNotFound, "no such resource")
			return
		}
		s.note("+" + uri)
		if uri == "x:slow" {
			return
		}
		l.result(m, `{}`)
	case wire.MethodResourcesUnsub:
		s.note("-" + uri)
		l.result(m, `{}`)
	}
}

func (s *subscriptions) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

// take returns what has arrived since it was last asked.
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
		server := &fakeServer{handle: s.handle}
		r := start(t, Options{Pipe: server.pipe})
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
		equal(t, "requests", s.take(), "+x:a")
		for range 49 {
			r.Unsubscribe("x:a")
		}
		synctest.Wait()
		equal(t, "requests while one is left", s.take(), "")
		server.life(1).line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a/b","k":1}}`)
		synctest.Wait()
		equal(t, "told", strings.Join(r.watch.noted(), "\n"), `notifications/resources/updated {"uri":"x:a/b","k":1}`)
		r.Unsubscribe("x:a")
		synctest.Wait()
		equal(t, "requests after the last", s.take(), "-x:a")
		r.Unsubscribe("x:a") // one too many is harmless
		synctest.Wait()
		equal(t, "requests after that", s.take(), "")
	})
}

func TestSubscribeRefused(t *testing.T) {
	for _, tt := range []struct {
		name, uri, want string
		handle          func(*fakeLife, wire.Message)
		takes           time.Duration
	}{
		{"by the server", "x:bad", `{"code":-32002,"message":"no such resource"}`, (&subscriptions{}).handle, 0},
		{"no answer", "x:slow", `{"code":-32603,"message":"upstream \"files\": the server did not answer within 10s","data":{"upstream":"files","reason":"the server did not answer within 10s","since":"2000-01-01T00:00:00Z","retryable":true}}`,
			(&subscriptions{}).handle, subscribeTimeout},
		{"no such capability", "x:a", `{"code":-32601,"message":"method not found: \"resources/subscribe\""}`, legacy(nil), 0},
		{"no such capability, modern", "x:a", `{"code":-32601,"message":"method not found: \"resources/subscribe\""}`, modern(nil), 0},
		{"left out of the acknowledgement", "x:bad",
			`{"code":-32002,"message":"the server does not tell of updates of this resource","data":{"uri":"x:bad"}}`, (&listens{}).handle, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeServer{handle: tt.handle}
				r := start(t, Options{Pipe: server.pipe})
				r.watch.wait(t, isReady)
				began := time.Now()
				err := r.Subscribe(t.Context(), tt.uri)
				refusal, ok := errors.AsType[*wire.Error](err)
				if !ok {
					t.Fatalf("error %v", err)
				}
				equal(t, "error", string(refusal.Append(nil)), tt.want)
				equal(t, "took", time.Since(began), tt.takes)
				synctest.Wait()
				equal(t, "wanted afterwards", len(r.subscribedURIs()), 0)
			})
		})
	}
}

// Who gives up does not leave the server with a subscription that nobody wants.
func TestSubscribeAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		var held []wire.Message
		server := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
			if m.Method == wire.MethodResourcesSubscribe {
				held = append(held, m)
				return
			}
			s.handle(l, m)
		}}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Subscribe(ctx, "x:a"); err != context.DeadlineExceeded {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		server.life(1).result(held[0], `{}`)
		synctest.Wait()
		equal(t, "requests", s.take(), "-x:a")
	})
}

// After a reconnection everything that is wanted is subscribed to again, and
// since an update may have been missed there is one for each, and a change of
// each list.
func TestSubscribedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		server := &fakeServer{handle: s.handle}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		for _, uri := range []string{"x:a", "x:b"} {
			if err := r.Subscribe(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
		s.take()
		server.life(1).quit()
		r.watch.wait(t, isDown)
		r.Unsubscribe("x:b") // while there is no server to tell
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "requests", s.take(), "+x:a")
		equal(t, "told", strings.Join(r.watch.noted(), "\n"), `notifications/resources/updated {"uri":"x:a"}`)
		equal(t, "changes of resources", r.Snapshot().Changes.Resources, 1)
		if err := r.Subscribe(t.Context(), "x:a"); err != nil {
			t.Error(err)
		}
		equal(t, "requests for one more", s.take(), "")
	})
}

// A server that refuses what it once gave is asked again, and nobody who was
// told yes hears of it.
func TestSubscribedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &subscriptions{}
		refusals := 0
		server := &fakeServer{handle: func(l *fakeLife, m wire.Message) {
			if l.n == 2 && m.Method == wire.MethodResourcesSubscribe && refusals < 3 {
				refusals++
				l.refuse(m, wire.CodeInternal, "not yet")
				return
			}
			s.handle(l, m)
		}}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		if err := r.Subscribe(t.Context(), "x:a"); err != nil {
			t.Fatal(err)
		}
		server.life(1).quit()
		r.watch.wait(t, isDown)
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "refusals", refusals, 3)
		equal(t, "requests", s.take(), "+x:a +x:a")
		equal(t, "told", strings.Join(r.watch.noted(), "\n"), `notifications/resources/updated {"uri":"x:a"}`)
	})
}

// listens is a modern server that keeps track of its subscriptions.
type listens struct {
	mu  sync.Mutex
	log []string
}

func (s *listens) handle(l *fakeLife, m wire.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m.Method {
	case wire.MethodInitialize:
		l.refuse(m, wire.CodeMethodNotFound, "method not found")
	case wire.MethodDiscover:
		l.result(m, modernSubscribable)
	case wire.MethodResourcesList:
		l.result(m, `{"resources":[]}`)
	case wire.MethodTemplatesList:
		l.result(m, `{"resourceTemplates":[]}`)
	case wire.NoteCancelled:
		s.log = append(s.log, "close "+wire.ValueOf(m.Params).Get("requestId").Str()+string(wire.ValueOf(m.Params).Get("requestId").Raw()))
	case wire.MethodListen:
		var uris []string
		for el := range wire.ValueOf(m.Params).Get("notifications", "resourceSubscriptions").Elements() {
			if el.IsString("x:poison") {
				s.log = append(s.log, "refuse")
				l.refuse(m, wire.CodeInvalidParams, "no such resource")
				return
			}
			if !el.IsString("x:bad") {
				uris = append(uris, string(el.Raw()))
			}
		}
		s.log = append(s.log, "open "+strings.Join(uris, ","))
		l.line(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"resourceSubscriptions":[%s]}}}`,
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

// On a line each resource has a subscription of its own: servers that note by
// connection who listens to what would forget the whole of one that ends.
func TestModernSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &listens{}
		server := &fakeServer{handle: s.handle}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		equal(t, "at first", s.take(), "")
		subscribe := func(uri string) {
			t.Helper()
			if err := r.Subscribe(t.Context(), uri); err != nil {
				t.Errorf("subscribe to %s: %v", uri, err)
			}
			synctest.Wait()
		}
		subscribe("x:a")
		equal(t, "one", s.take(), `open "x:a"`)
		subscribe("x:b")
		equal(t, "two", s.take(), `open "x:b"`)
		subscribe("x:b")
		equal(t, "the same again", s.take(), "")
		r.Unsubscribe("x:a")
		synctest.Wait()
		first := server.life(1).wait(t, func(m wire.Message) bool { return m.Method == wire.MethodListen })
		equal(t, "one again", s.take(), "close "+first.ID.String())
		r.Unsubscribe("x:b")
		r.Unsubscribe("x:b")
		synctest.Wait()
		if got := s.take(); !strings.HasPrefix(got, `close `) {
			t.Errorf("none: %s", got)
		}
		equal(t, "told", len(r.watch.noted()), 0)
	})
}

// A server that fails a whole subscription for one resource is asked for each by
// itself.
func TestModernSubscribePoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &listens{}
		server := &fakeServer{handle: s.handle}
		r := start(t, Options{Pipe: server.pipe})
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
			equal(t, uri, no, uri == "x:poison")
		}
		synctest.Wait()
		s.take()
		if err := r.Subscribe(t.Context(), "x:c"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		equal(t, "the next", s.take(), `open "x:c"`)
	})
}

// When the server ends the subscription it is opened again, with the same
// resources, which count as updated.
func TestModernSubscribedAgain(t *testing.T) {
	for name, end := range map[string]func(l *fakeLife, listen wire.Message){
		"a result": func(l *fakeLife, listen wire.Message) { l.result(listen, `{"resultType":"complete"}`) },
		"a cancellation": func(l *fakeLife, listen wire.Message) {
			l.line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, listen.ID)
		},
		"an error":  func(l *fakeLife, listen wire.Message) { l.refuse(listen, wire.CodeInternal, "enough") },
		"a restart": func(l *fakeLife, _ wire.Message) { l.quit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &listens{}
				server := &fakeServer{handle: s.handle}
				r := start(t, Options{Pipe: server.pipe})
				r.watch.wait(t, isReady)
				for _, uri := range []string{"x:a", "x:b"} {
					if err := r.Subscribe(t.Context(), uri); err != nil {
						t.Fatal(err)
					}
				}
				s.take()
				for _, uri := range []string{"x:a", "x:b"} {
					end(server.life(1), server.life(1).wait(t, func(m wire.Message) bool {
						return m.Method == wire.MethodListen && strings.Contains(string(m.Params), uri)
					}))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				opened := strings.Split(s.take(), "; ")
				slices.Sort(opened)
				equal(t, "the server got", strings.Join(opened, "; "), `open "x:a"; open "x:b"`)
				got := r.watch.noted()
				slices.Sort(got)
				got = slices.Compact(got) // one that stands for a possible update may come twice
				equal(t, "told", strings.Join(got, "\n"),
					"notifications/resources/updated {\"uri\":\"x:a\"}\nnotifications/resources/updated {\"uri\":\"x:b\"}")
			})
		})
	}
}

// Over HTTP each subscription is a stream of its own; the old one is closed.
func TestModernSubscribeHTTP(t *testing.T) {
	s := &script{modern: true, caps: subscribable, on: map[string]on{}}
	var mu sync.Mutex
	open := map[string]bool{}
	update := make(chan string)
	s.on[wire.MethodListen] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		filter := string(wire.ValueOf(m.Params).Get("notifications").Raw())
		send := streaming(w)
		send(`data: {"jsonrpc":"2.0","method":"%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, wire.NoteAcknowledged, m.ID, filter)
		mu.Lock()
		open[filter] = true
		mu.Unlock()
		defer func() {
			mu.Lock()
			delete(open, filter)
			mu.Unlock()
		}()
		for {
			select {
			case uri := <-update:
				send(`data: {"jsonrpc":"2.0","method":"%s","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"uri":%q}}`, wire.NoteResourceUpdated, m.ID, uri)
			case <-r.Context().Done():
				return
			}
		}
	}
	c := converse(t, s)
	for _, uris := range [][]string{{"x:a"}, {"x:a", "x:b"}} {
		honored, err := c.Listen(t.Context(), uris)
		if err != nil || !slices.Equal(honored, uris) {
			t.Errorf("listening to %v: %v, %v", uris, honored, err)
		}
	}
	polltest.Until(t, "one stream", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 1 && open[`{"resourceSubscriptions":["x:a","x:b"]}`]
	})
	update <- "x:b"
	c.in.want(t, wire.NoteResourceUpdated+`{"uri":"x:b"}`)
	if _, err := c.Listen(t.Context(), nil); err != nil {
		t.Error(err)
	}
	polltest.Until(t, "no stream", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})
}

// A server that has forgotten its session has forgotten the subscriptions too.
func TestSubscribedAgainInNewSession(t *testing.T) {
	s := &script{stateful: true, caps: subscribable, on: map[string]on{}}
	s.on[wire.MethodResourcesList] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerJSON(w, m, `{"resources":[]}`) }
	s.on[wire.MethodTemplatesList] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		answerJSON(w, m, `{"resourceTemplates":[]}`)
	}
	var mu sync.Mutex
	var got []string
	s.on[wire.MethodResourcesSubscribe] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		mu.Lock()
		got = append(got, r.Header.Get(wire.HeaderSession)+" "+wire.ValueOf(m.Params).Get("uri").Str())
		mu.Unlock()
		answerJSON(w, m, `{}`)
	}
	o := testOptions(t, serve(t, s).URL, legacyEra)
	r := start(t, *o)
	r.watch.wait(t, isReady)
	if err := r.Subscribe(t.Context(), "x:a"); err != nil {
		t.Fatal(err)
	}
	s.forget()
	equal(t, "outcome", outcomeOf(r.Do(t.Context(), toolCall("x", "a", &peer{}))), doneResult)
	polltest.Until(t, "an update", func() bool { return slices.Contains(r.watch.noted(), `notifications/resources/updated {"uri":"x:a"}`) })
	mu.Lock()
	defer mu.Unlock()
	equal(t, "requests", strings.Join(got, ", "), "session-1 x:a, session-2 x:a")
}

// Whatever comes and goes in whatever order, in the end the server is
// subscribed to what is wanted.
func TestSubscribeRaces(t *testing.T) {
	for name, handle := range map[string]func(*fakeLife, wire.Message){"legacy": (&subscriptions{}).handle, "modern": (&listens{}).handle} {
		t.Run(name, func(t *testing.T) {
			server := &fakeServer{handle: handle}
			r := start(t, Options{Pipe: server.pipe})
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
							server.life(server.starts()).quit()
						}
					}
				})
			}
			wg.Wait()
			equal(t, "wanted", len(r.subscribedURIs()), 0)
			if err := r.Subscribe(t.Context(), "x:last"); err != nil {
				t.Errorf("subscribe after the storm: %v", err)
			}
		})
	}
}

// A modern request asks for log messages itself; a legacy server has to be told
// before it gets the request, and is told otherwise when nobody has asked for a
// while.
func TestLevelOfModernRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{handle: legacy(ok)}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		r.SetLogLevel(wire.LevelWarning)
		synctest.Wait()
		do := func(level wire.Level, rev wire.Revision) {
			t.Helper()
			cl := toolCall("echo", "a", &peer{})
			cl.LogLevel, cl.Client = level, &call.Client{Key: "a", Revision: rev}
			equal(t, "outcome", outcomeOf(r.Do(t.Context(), cl)), `{"ok":1}`)
		}
		do(wire.LevelDebug, wire.Rev20251125) // a session's level comes by SetLogLevel
		do(wire.LevelError, wire.LatestModern)
		do(wire.LevelDebug, wire.LatestModern)
		do(wire.LevelInfo, wire.LatestModern)
		time.Sleep(requestLevelTime + time.Second)
		synctest.Wait()
		equal(t, "what the server got", strings.Join(server.life(1).levelsAndCalls(), " "), "warning call call debug call call warning")
	})
}

// A client that has set the level of its session, and has its answer, gets the
// log messages of its next call.
func TestLevelBeforeTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{handle: legacy(ok)}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		var want []string
		for _, level := range []wire.Level{wire.LevelInfo, wire.LevelError, wire.LevelDebug, wire.LevelDebug} {
			r.SetLogLevel(level)
			cl := toolCall("echo", "a", &peer{})
			cl.LogLevel, cl.Client = level, &call.Client{Key: "a", Revision: wire.Rev20251125}
			equal(t, "outcome", outcomeOf(r.Do(t.Context(), cl)), `{"ok":1}`)
			want = append(want, level.String(), "call")
		}
		want = slices.Delete(want, 6, 7) // it was told that already
		equal(t, "what the server got", strings.Join(server.life(1).levelsAndCalls(), " "), strings.Join(want, " "))
	})
}

// levelsAndCalls are the levels that the server was told, and "call" for each
// call of a tool.
func (l *fakeLife) levelsAndCalls() (got []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.got {
		switch m.Method {
		case wire.MethodSetLevel:
			got = append(got, wire.ValueOf(m.Params).Get("level").Str())
		case wire.MethodToolsCall:
			got = append(got, "call")
		}
	}
	return got
}

// A notification that nobody here knows belongs to the call that it comes with;
// what is about the server as a whole does not, wherever it comes.
func TestUnknownNotifications(t *testing.T) {
	notes := []string{"notifications/vendor/thing", wire.NoteResourceUpdated, "notifications/tasks"}
	legacyHTTP, modernHTTP := &script{on: map[string]on{}}, &script{modern: true, on: map[string]on{}}
	for _, s := range []*script{legacyHTTP, modernHTTP} {
		s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			send := streaming(w)
			for _, note := range notes {
				send(`data: {"jsonrpc":"2.0","method":%q,"params":{"k":1}}`, note)
			}
			send(`data: {"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		}
	}
	check := func(t *testing.T, mine []string, others string) {
		t.Helper()
		equal(t, "the client is told", strings.Join(mine, "; "), `notifications/vendor/thing{"k":1}`)
		equal(t, "the observer is told", others, `notifications/resources/updated{"k":1}; notifications/tasks{"k":1}`)
	}
	for name, s := range map[string]*script{"legacy": legacyHTTP, "modern": modernHTTP} {
		t.Run(name+" over HTTP", func(t *testing.T) {
			c := converse(t, s)
			back := &client{}
			cl := tool("a", `{"name":"x"}`, back)
			if s.modern {
				cl = modernCall(wire.MethodToolsCall, `{"name":"x"}`)
				cl.Back = back
			}
			equal(t, "outcome", c.do(t, cl), `{}`)
			check(t, back.notes, <-c.in+"; "+<-c.in)
		})
	}
	t.Run("on a line", func(t *testing.T) {
		server := &fakeServer{handle: legacy(func(l *fakeLife, m wire.Message) {
			if m.Method != wire.MethodToolsCall {
				return
			}
			for _, note := range notes {
				l.line(`{"jsonrpc":"2.0","method":%q,"params":{"k":1}}`, note)
			}
			l.result(m, `{}`)
		})}
		r := start(t, Options{Pipe: server.pipe})
		r.watch.wait(t, isReady)
		back := &client{}
		cl := toolCall("x", "a", back)
		cl.LogLevel = wire.LevelInfo
		equal(t, "outcome", outcomeOf(r.Do(t.Context(), cl)), `{}`)
		check(t, back.notes, strings.ReplaceAll(strings.Join(r.watch.noted(), "; "), " {", "{"))
	})
}
