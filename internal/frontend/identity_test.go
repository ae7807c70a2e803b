package frontend

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// An ask outside of a call goes to the client with its Key. So two clients without a
// session must not share a Key, and one client must not have two.
func TestKeysOfClientsWithoutSession(t *testing.T) {
	const host = `"io.modelcontextprotocol/clientInfo":{"name":"host","version":"1"},`
	modern := func(info string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{` + info +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	}
	const legacy = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
	type sender struct {
		body, from, agent, forwarded, key, profile string
	}
	ann := sender{modern(host), "192.0.2.1:1000", "sdk/1", "", "ann", ""}
	with := func(change func(*sender)) sender { s := ann; change(&s); return s }
	for name, tc := range map[string]struct {
		first, second sender
		same          bool
	}{
		"the same again, on another connection": {ann, with(func(s *sender) { s.from = "192.0.2.1:2000" }), true},
		"another machine":                       {ann, with(func(s *sender) { s.from = "192.0.2.2:1000" }), false},
		"another machine behind a proxy":        {ann, with(func(s *sender) { s.forwarded = "198.51.100.1" }), false},
		"another program":                       {ann, with(func(s *sender) { s.agent = "sdk/2" }), false},
		"another host program": {ann, with(func(s *sender) {
			s.body = modern(strings.Replace(host, `"host"`, `"other"`, 1))
		}), false},
		"another principal":  {ann, with(func(s *sender) { s.key = "bob" }), false},
		"another profile":    {ann, with(func(s *sender) { s.profile = "coding" }), false},
		"nothing that tells": {with(func(s *sender) { s.body = modern("") }), with(func(s *sender) { s.body = modern("") }), false},
		"legacy ones without a session": {
			with(func(s *sender) { s.body = legacy }), with(func(s *sender) { s.body = legacy }), false},
	} {
		t.Run(name, func(t *testing.T) {
			k := &clientRecorder{}
			s := New(Options{Handler: k, Info: wire.Raw(`{}`), Authenticate: func(r *http.Request) (*call.Principal, error) {
				return &call.Principal{Subject: r.Header.Get("X-Api-Key"), Profile: r.Header.Get("X-Profile"), AuthMethod: "api-key"}, nil
			}})
			for _, from := range []sender{tc.first, tc.second} {
				era := wire.EraModern
				if from.body == legacy {
					era = wire.EraLegacy
				}
				r := callFor(t, from.body, era)
				if era == wire.EraModern {
					r.Header.Set(wire.HeaderName, "t")
				}
				r.RemoteAddr = from.from
				r.Header.Set("User-Agent", from.agent)
				r.Header.Set("X-Api-Key", from.key)
				r.Header.Set("X-Profile", from.profile)
				if from.forwarded != "" {
					r.Header.Set("X-Forwarded-For", from.forwarded)
				}
				if w := do(s, r); w.Code != http.StatusOK {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			if len(k.clients) != 2 {
				t.Fatalf("%d calls", len(k.clients))
			}
			a, b := k.clients[0], k.clients[1]
			if got := a.Key == b.Key; got != tc.same {
				t.Errorf("keys %q and %q: the same is %v, want %v", a.Key, b.Key, got, tc.same)
			}
			if !a.Sessionless || !b.Sessionless || a.Key == "" {
				t.Errorf("%+v, %+v: want keys, and no sessions", a, b)
			}
		})
	}
}

// All calls of one client count for one share, and other clients have other shares.
func TestSharesOfClients(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`)})
	ann := &call.Principal{Subject: "ann", AuthMethod: "api-key"}
	a, b := &call.Client{Key: "a"}, &call.Client{Key: "b"}
	silent := []*call.Client{{Key: "1", Sessionless: true}, {Key: "2", Sessionless: true}}
	r := callFor(t, pingBody, wire.EraLegacy)
	r.RemoteAddr = "192.0.2.1:1"
	for name, tc := range map[string]struct{ first, second, want any }{
		"requests in a principal's profiles":   {s.requestShare(r, ann), s.requestShare(r, ann.In("coding")), true},
		"requests in a stranger's profiles":    {s.requestShare(r, call.Anonymous), s.requestShare(r, call.Anonymous.In("coding")), true},
		"requests of others":                   {s.requestShare(r, ann), s.requestShare(r, call.Anonymous), false},
		"a principal's clients":                {s.callShare("192.0.2.1:1", ann, a), s.callShare("192.0.2.2:1", ann, b), true},
		"a principal's profiles":               {s.callShare("192.0.2.1:1", ann, a), s.callShare("192.0.2.1:1", ann.In("coding"), b), true},
		"profiles of a stranger":               {s.callShare("192.0.2.1:1", call.Anonymous, a), s.callShare("192.0.2.1:1", call.Anonymous.In("coding"), b), true},
		"strangers":                            {s.callShare("192.0.2.1:1", call.Anonymous, a), s.callShare("192.0.2.2:1", call.Anonymous, a), false},
		"many sessions of one machine":         {s.callShare("192.0.2.1:1", call.Anonymous, a), s.callShare("192.0.2.1:2", call.Anonymous, b), true},
		"many addresses of one network":        {s.callShare("[2001:db8::1]:1", call.Anonymous, a), s.callShare("[2001:db8::2]:1", call.Anonymous, b), true},
		"programs on this machine":             {s.callShare("127.0.0.1:1", call.Anonymous, a), s.callShare("127.0.0.1:2", call.Anonymous, b), false},
		"those here that do not say who it is": {s.callShare("127.0.0.1:1", call.Anonymous, silent[0]), s.callShare("127.0.0.1:2", call.Anonymous, silent[1]), true},
	} {
		if got := tc.first == tc.second; got != tc.want {
			t.Errorf("%s: the same share is %v, want %v", name, got, tc.want)
		}
	}
}

// A call without a session ends with its connection, because the client cannot fetch the
// answer later. In a session it can.
func TestACallWithoutSessionEndsWithItsClient(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	s := New(Options{Info: wire.Raw(`{}`), Handler: handlerFunc(func(ctx context.Context, c *call.Call) (call.Result, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return call.Result{}, ctx.Err()
	})})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	r := callFor(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, wire.EraLegacy).WithContext(ctx)
	go func() {
		defer close(done)
		do(s, r)
	}()
	<-began
	leave()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the call goes on without its client")
		s.sessionless.cancel(errStopped)
	}
	<-done
}
