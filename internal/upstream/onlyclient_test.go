package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// The one session with the server declares what the only client can do, which is
// waited for, but not for long.
func TestOnlyClientIsDeclared(t *testing.T) {
	const able = `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{"context":{}}}`
	legacy20251125 := &call.Client{Key: "ann", Revision: wire.Rev20251125, Capabilities: wire.Raw(able)}
	modernClient := &call.Client{Key: "ann", Sessionless: true, Revision: wire.Rev20260728, Capabilities: wire.Raw(able)}
	configured := []protocol.Root{{URI: "file:///configured"}}
	for name, tc := range map[string]struct {
		client *call.Client // nil: none in time
		after  time.Duration
		roots  []protocol.Root
		shared Sharing
		want   string
		asked  string // the answer to roots/list outside of calls
	}{
		"legacy":                      {legacy20251125, time.Second, nil, Shared, `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{}}`, "file:///ann"},
		"modern":                      {modernClient, time.Second, nil, Shared, `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{}}`, "file:///ann"},
		"that can do nothing":         {&call.Client{Key: "ann", Revision: wire.Rev20251125}, 0, nil, Shared, `{}`, "none"},
		"none in time":                {nil, onlyClientTime, nil, Shared, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`, "-32603"},
		"configured roots":            {legacy20251125, 0, configured, Shared, `{"elicitation":{"url":{}},"roots":{},"sampling":{}}`, "file:///configured"},
		"roots of a session not used": {legacy20251125, 0, configured, PerClient, `{"elicitation":{"url":{}},"roots":{"listChanged":true},"sampling":{}}`, "file:///ann"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				only := NewOnlyClient()
				began := time.Now()
				if tc.client != nil {
					time.AfterFunc(tc.after, func() { only.Set(tc.client) })
				}
				var asked time.Time
				h := keep(t, func(l *fakeLife, m wire.Message) {
					if m.Method == wire.MethodInitialize {
						asked = time.Now()
					}
					rootful()(l, m)
				}, func(o *Options) { o.OnlyClient, o.Roots, o.Sharing = only, tc.roots, tc.shared })
				if got := asked.Sub(began); got != tc.after {
					t.Errorf("initialize was sent after %s, want %s", got, tc.after)
				}
				equal(t, "declared", declared(h.s.life(1), t), tc.want)
				time.Sleep(time.Second)
				got := h.s.life(1).roots()
				if v := wire.ValueOf(wire.Raw(got)); v.Kind() == '[' {
					for el := range v.Elements() {
						got = el.Get("uri").Str()
					}
				}
				equal(t, "roots", got, tc.asked)
			})
		})
	}
}

// Whatever session is configured, there is one, also after a restart: it is asked for
// the client's roots again when they change, and what the server asks between calls
// reaches the client.
func TestOnlyClientHasOneSession(t *testing.T) {
	for _, sharing := range []Sharing{Shared, PerClient, PerPrincipal} {
		synctest.Test(t, func(t *testing.T) {
			only := NewOnlyClient()
			ann := by("ann", `{"roots":{},"elicitation":{}}`, &peer{})
			ann.Principal = call.Local
			only.Set(ann.Client)
			h := keep(t, rootful(), func(o *Options) { o.OnlyClient, o.Sharing = only, sharing })
			if got := h.call(t.Context(), ann); got != `"[{\"uri\":\"file:///ann\"}]"` {
				t.Errorf("the call is answered with %s", got)
			}
			h.RootsChanged(ann.Client, ann.Principal.Key())
			h.s.life(1).wait(t, response(`"roots-2"`)) // requests of the server are answered at once, in any order
			h.s.life(1).line(`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?"}}`)
			h.s.life(1).line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}`)
			h.s.life(1).wait(t, response(`"e"`))
			synctest.Wait()
			if diff := cmp.Diff([]string{"ann: roots/list", "ann: roots/list", "ann: elicitation/create"}, h.people.were()); diff != "" {
				t.Errorf("the client was asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{`ann: notifications/message{"level":"error"}`}, h.watch.noted()); diff != "" {
				t.Errorf("the client was told (-want +got):\n%s", diff)
			}
			if n := h.s.starts(); n != 1 {
				t.Errorf("%d sessions", n)
			}
			h.s.life(1).quit()
			time.Sleep(2 * time.Second)
			equal(t, "declared after a restart", declared(h.s.life(2), t), `{"roots":{},"elicitation":{}}`)
		})
	}
}
