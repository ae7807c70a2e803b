package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// The only session declares the capabilities of the only client. The gateway waits
// for that client for a bounded time.
func TestOnlyClientIsDeclared(t *testing.T) {
	const able = `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{"context":{}}}`
	legacy20251125 := &call.Client{Key: "ann", Revision: wire.Rev20251125, Capabilities: wire.Raw(able)}
	modernClient := &call.Client{Key: "ann", Sessionless: true, Revision: wire.Rev20260728, Capabilities: wire.Raw(able)}
	configured := []protocol.Root{{URI: "file:///configured"}}
	for name, tc := range map[string]struct {
		client *call.Client // nil: no client in time
		after  time.Duration
		roots  []protocol.Root
		shared Sharing
		want   string
		asked  string // answer to roots/list outside of calls
	}{
		"legacy":                       {legacy20251125, time.Second, nil, Shared, `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{}}`, "file:///ann"},
		"modern":                       {modernClient, time.Second, nil, Shared, `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{}}`, "file:///ann"},
		"no capabilities":              {&call.Client{Key: "ann", Revision: wire.Rev20251125}, 0, nil, Shared, `{}`, "none"},
		"no client in time":            {nil, onlyClientTime, nil, Shared, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`, "-32603"},
		"configured roots":             {legacy20251125, 0, configured, Shared, `{"elicitation":{"url":{}},"roots":{},"sampling":{}}`, "file:///configured"},
		"configured roots, per client": {legacy20251125, 0, configured, PerClient, `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{}}`, "file:///ann"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				only := NewOnlyClient()
				began := time.Now()
				if tc.client != nil {
					time.AfterFunc(tc.after, func() { only.Set(tc.client) })
				}
				var asked time.Time
				h := startSessions(t, func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodInitialize {
						asked = time.Now()
					}
					asksForRoots()(l, m)
				}, func(o *Options) { o.OnlyClient, o.Roots, o.Sharing = only, tc.roots, tc.shared })
				if got := asked.Sub(began); got != tc.after {
					t.Errorf("initialize was sent after %s, want %s", got, tc.after)
				}
				upstreamtest.Equal(t, "declared", declared(h.s.Instance(1), t), tc.want)
				time.Sleep(time.Second)
				got := lastRoots(h.s.Instance(1))
				if v := wire.ValueOf(wire.Raw(got)); v.Kind() == '[' {
					for el := range v.Elements() {
						got = el.Get("uri").Str()
					}
				}
				upstreamtest.Equal(t, "roots", got, tc.asked)
			})
		})
	}
}

// The only client has one session for every sharing mode, also after a restart. The
// server asks for the client's roots again when they change, and asks between calls
// reach the client.
func TestOnlyClientHasOneSession(t *testing.T) {
	for _, sharing := range []Sharing{Shared, PerClient, PerPrincipal} {
		synctest.Test(t, func(t *testing.T) {
			only := NewOnlyClient()
			ann := legacyCall("ann", `{"roots":{},"elicitation":{}}`, &upstreamtest.Peer{})
			ann.Principal = call.Local
			only.Set(ann.Client)
			h := startSessions(t, asksForRoots(), func(o *Options) { o.OnlyClient, o.Sharing = only, sharing })
			if got := h.call(t.Context(), ann); got != `"[{\"uri\":\"file:///ann\"}]"` {
				t.Errorf("the call is answered with %s", got)
			}
			h.RootsChanged(ann.Client, ann.Principal.Key())
			h.s.Instance(1).Wait(t, upstreamtest.Response(`"roots-2"`)) // server requests are answered concurrently
			h.s.Instance(1).Line(`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?"}}`)
			h.s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}`)
			h.s.Instance(1).Wait(t, upstreamtest.Response(`"e"`))
			synctest.Wait()
			if diff := cmp.Diff([]string{"ann: roots/list", "ann: roots/list", "ann: elicitation/create"}, h.clients.requests()); diff != "" {
				t.Errorf("asks of the client (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{`ann: notifications/message{"level":"error"}`}, h.watch.noted()); diff != "" {
				t.Errorf("notifications of the client (-want +got):\n%s", diff)
			}
			if n := h.s.Starts(); n != 1 {
				t.Errorf("%d sessions", n)
			}
			h.s.Instance(1).Quit()
			time.Sleep(2 * time.Second)
			upstreamtest.Equal(t, "declared after a restart", declared(h.s.Instance(2), t), `{"roots":{},"elicitation":{}}`)
		})
	}
}

// A client that is introduced, but may not be asked yet, is declared at once, and asked when
// it may be.
func TestIntroducedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := NewOnlyClient()
		client := &call.Client{Key: "ann", Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"roots":{}}`)}
		only.Introduce(client)
		began := time.Now()
		time.AfterFunc(time.Second, func() { only.Set(client) })
		h := startSessions(t, asksForRoots(), func(o *Options) { o.OnlyClient = only })
		upstreamtest.Equal(t, "declared", declared(h.s.Instance(1), t), `{"roots":{}}`)
		if took := time.Since(began); took != 0 {
			t.Errorf("initialize was sent after %s", took)
		}
		if asked := h.clients.requests(); len(asked) > 0 {
			t.Errorf("the client was asked before it was ready: %s", asked)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"ann: roots/list"}, h.clients.requests()); diff != "" {
			t.Errorf("asks of the client (-want +got):\n%s", diff)
		}
	})
}
