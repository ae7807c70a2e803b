package upstream

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

const subscribable = `{"resources":{"subscribe":true}}`

// Over HTTP each subscription has its own stream. The previous stream is closed.
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

// The gateway subscribes again after the server has forgotten its session.
func TestResubscribeInNewSession(t *testing.T) {
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
	upstreamtest.Equal(t, "outcome", upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("x", "a", &upstreamtest.Peer{}))), doneResult)
	polltest.Until(t, "an update", func() bool { return slices.Contains(r.watch.noted(), `notifications/resources/updated {"uri":"x:a"}`) })
	mu.Lock()
	defer mu.Unlock()
	upstreamtest.Equal(t, "requests", strings.Join(got, ", "), "session-1 x:a, session-2 x:a")
}

// An unknown notification belongs to the call that it arrives with. A notification
// about the whole server belongs to no call.
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
		upstreamtest.Equal(t, "notifications of the client", strings.Join(mine, "; "), `notifications/vendor/thing{"k":1}`)
		upstreamtest.Equal(t, "notifications of the observer", others, `notifications/resources/updated{"k":1}; notifications/tasks{"k":1}`)
	}
	for name, s := range map[string]*script{"legacy": legacyHTTP, "modern": modernHTTP} {
		t.Run(name+"/HTTP", func(t *testing.T) {
			c := converse(t, s)
			back := &client{}
			cl := tool("a", `{"name":"x"}`, back)
			if s.modern {
				cl = modernCall(wire.MethodToolsCall, `{"name":"x"}`)
				cl.Back = back
			}
			upstreamtest.Equal(t, "outcome", c.do(t, cl), `{}`)
			check(t, back.notes, <-c.in+"; "+<-c.in)
		})
	}
	t.Run("line transport", func(t *testing.T) {
		server := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method != wire.MethodToolsCall {
				return
			}
			for _, note := range notes {
				l.Line(`{"jsonrpc":"2.0","method":%q,"params":{"k":1}}`, note)
			}
			l.Result(m, `{}`)
		})}
		r := start(t, Options{Server: Server{Pipe: server.Pipe}})
		r.watch.wait(t, isReady)
		back := &client{}
		cl := upstreamtest.ToolCall("x", "a", back)
		cl.LogLevel = wire.LevelInfo
		upstreamtest.Equal(t, "outcome", upstreamtest.Outcome(r.Do(t.Context(), cl)), `{}`)
		check(t, back.notes, strings.ReplaceAll(strings.Join(r.watch.noted(), "; "), " {", "{"))
	})
}
