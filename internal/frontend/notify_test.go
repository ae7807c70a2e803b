package frontend

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// streamClient is a legacy client of a parkingServer, with a GET stream.
type streamClient struct {
	l      *parkingServer
	ctx    context.Context
	key    string
	client *call.Client
	stream *reply
}

func (l *parkingServer) enter(ctx context.Context, capabilities string) *streamClient {
	g := &streamClient{l: l, ctx: ctx}
	r := g.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	g.key = r.header.Get(wire.HeaderSession)
	g.client = &call.Client{Key: g.key, Revision: wire.Rev20251125, Capabilities: wire.Raw(capabilities)}
	g.stream = g.send(http.MethodGet, "")
	return g
}

// send sends a request and waits until all goroutines wait.
func (g *streamClient) send(verb, body string) *reply {
	g.l.t.Helper()
	req, err := http.NewRequestWithContext(g.ctx, verb, "http://127.0.0.1/mcp", io.NopCloser(strings.NewReader(body)))
	if err != nil {
		g.l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if g.key != "" {
		req.Header.Set(wire.HeaderSession, g.key)
	}
	r := &reply{l: g.l, header: make(http.Header)}
	go func() {
		g.l.s.ServeHTTP(r, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done = true
	}()
	synctest.Wait()
	return r
}

// received returns the messages that have come on the client's stream.
func (g *streamClient) received() string {
	synctest.Wait()
	g.stream.mu.Lock()
	defer g.stream.mu.Unlock()
	var out []string
	for line := range strings.Lines(g.stream.body.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "" {
			out = append(out, strings.TrimSpace(data))
		}
	}
	return strings.Join(out, "\n")
}

func note(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s"%s}`, method, params)
}

// A notification for one of two clients reaches only that client, on its stream.
func TestNotifyReachesOneClient(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		ctx, cancel := context.WithCancel(l.t.Context())
		defer cancel()
		ann, bob := l.enter(ctx, `{}`), l.enter(ctx, `{}`)
		l.s.Notify(Audience{Client: ann.key}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"x"}`))
		l.s.Notify(Audience{Client: "nobody"}, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"y"}`))
		l.s.Notify(Audience{Client: ann.key}, wire.NoteToolsChanged, nil)
		synctest.Wait() // list changes may come after later messages
		l.s.Notify(Audience{Client: ann.key}, wire.NoteMessage, wire.Raw(`{"level":"debug","data":1}`))
		l.s.Notify(Audience{Client: ann.key}, wire.NoteMessage, wire.Raw(`{"level":"info","data":2}`))
		want := note("elicitation/complete", `,"params":{"elicitationId":"x"}`) + "\n" + note("tools/list_changed", "") + "\n" + note("message", `,"params":{"level":"info","data":2}`)
		if got := ann.received(); got != want {
			t.Errorf("the client was told\n%s\nwant\n%s", got, want)
		}
		if got := bob.received(); got != "" {
			t.Errorf("another client got %s", got)
		}
		bob.send(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`)
		l.s.Notify(Audience{Client: bob.key}, wire.NoteMessage, wire.Raw(`{"level":"debug","data":3}`))
		if got := bob.received(); got != note("message", `,"params":{"level":"debug","data":3}`) {
			t.Errorf("a client that wants everything got %s", got)
		}
	})
}

func TestNotifyReachesAPrincipal(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		ctx, cancel := context.WithCancel(l.t.Context())
		defer cancel()
		var guests []*streamClient
		for _, subject := range []string{"ann", "ann", "bob"} {
			l.s.options.Authenticate = func(*http.Request) (*call.Principal, error) {
				return &call.Principal{Subject: subject, AuthMethod: "api-key"}, nil
			}
			guests = append(guests, l.enter(ctx, `{}`))
		}
		ann := (&call.Principal{Subject: "ann", AuthMethod: "api-key"}).Key()
		l.s.Notify(Audience{Principal: ann}, wire.NotePromptsChanged, nil)
		for n, want := range []string{note("prompts/list_changed", ""), note("prompts/list_changed", ""), ""} {
			if got := guests[n].received(); got != want {
				t.Errorf("client %d got %s, want %s", n, got, want)
			}
		}
	})
}

// A client can be asked between its calls, on its GET stream.
func TestAskBetweenCalls(t *testing.T) {
	const rooted = `{"roots":{}}`
	type outcome struct {
		answer wire.Raw
		err    error
	}
	ask := func(ctx context.Context, l *parkingServer, c *call.Client, method string) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			answer, err := l.s.Ask(ctx, c, method, wire.Raw(`{}`))
			done <- outcome{answer, err}
		}()
		synctest.Wait()
		return done
	}
	for _, tt := range []struct {
		name string
		then func(g *streamClient, cancel func())
		want string
	}{
		{"answered", func(g *streamClient, _ func()) {
			g.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		}, `{"roots":[]} <nil>`},
		{"refused", func(g *streamClient, _ func()) {
			g.send(http.MethodPost, `{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}`)
		}, ` no (-5)`},
		{"the session ends", func(g *streamClient, _ func()) { g.send(http.MethodDelete, "") }, ` the client cannot be reached (-32603)`},
		{"the server takes it back", func(_ *streamClient, cancel func()) { cancel() }, ` context canceled`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withParking(t, askOnce, func(l *parkingServer) {
				ctx, end := context.WithCancel(l.t.Context())
				defer end()
				g := l.enter(ctx, rooted)
				asking, cancel := context.WithCancel(l.t.Context())
				defer cancel()
				done := ask(asking, l, g.client, wire.MethodRootsList)
				if want := `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`; g.received() != want {
					t.Errorf("the client got %s, want %s", g.received(), want)
				}
				tt.then(g, cancel)
				o := <-done
				if got := fmt.Sprintf("%s %v", o.answer, o.err); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				if told := strings.Contains(g.received(), `"method":"notifications/cancelled","params":{"requestId":1}`); told != (asking.Err() != nil) {
					t.Errorf("the client got %s", g.received())
				}
			})
		})
	}
	withParking(t, askOnce, func(l *parkingServer) {
		ctx, end := context.WithCancel(l.t.Context())
		defer end()
		g := l.enter(ctx, rooted)
		if o := <-ask(ctx, l, g.client, wire.MethodElicit); string(o.answer) != `{"action":"cancel"}` || g.received() != "" {
			t.Errorf("an ask that the client did not declare: %s, %v; it got %s", o.answer, o.err, g.received())
		}
		gone := *g.client
		gone.Key = "gone"
		if o := <-ask(ctx, l, &gone, wire.MethodRootsList); o.err == nil {
			t.Errorf("a client that is gone answered %s", o.answer)
		}
	})
}

// The Events report each end of a session, for any reason, and changes of roots.
func TestSessionHooks(t *testing.T) {
	withParking(t, askOnce, func(l *parkingServer) {
		var ended, rooted []string
		l.sessionEnded = func(key string) { ended = append(ended, key) }
		l.s.options.Events.RootsChanged = func(c *call.Client, principal string) { rooted = append(rooted, c.Key+principal) }
		ctx, cancel := context.WithCancel(l.t.Context())
		defer cancel()
		ann, bob, eve := l.enter(ctx, `{}`), l.enter(ctx, `{}`), l.enter(ctx, `{}`)
		ann.send(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		if len(rooted) != 1 || rooted[0] != ann.key+call.Anonymous.Key() {
			t.Errorf("roots changed of %q", rooted)
		}
		ann.send(http.MethodDelete, "")
		if len(ended) != 1 || ended[0] != ann.key {
			t.Errorf("ended %q, want the one", ended)
		}
		l.stop()
		if len(ended) != 3 || !strings.Contains(strings.Join(ended, " "), bob.key) || !strings.Contains(strings.Join(ended, " "), eve.key) {
			t.Errorf("ended %q, want all", ended)
		}
	})
}
