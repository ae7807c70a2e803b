package upstream

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// lazily makes an upstream lazy whose catalog is remembered.
func lazily(o *Options) {
	o.Start = connector.Start{
		Lifetime:   connector.Lifetime{Lazy: true, IdleStop: time.Minute},
		Remembered: &connector.Snapshot{Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{}}`)},
	}
}

// Each client of a lazy upstream gets a process of its own when it calls. The first one of
// a run has the catalog gathered again, which nobody waits for. All end when nobody needs
// them.
func TestLazySessionsPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, upstreamtest.Legacy(upstreamtest.Echo), lazily)
		time.Sleep(time.Hour)
		upstreamtest.Equal(t, "starts before the first call", h.s.Starts(), 0)
		ann, bob := legacyCall("ann", `{}`, &upstreamtest.Peer{}), legacyCall("bob", `{}`, &upstreamtest.Peer{})
		upstreamtest.Equal(t, "ann", h.call(t.Context(), ann), `{"ok":1}`)
		time.Sleep(10 * time.Second)
		upstreamtest.Equal(t, "starts for ann and the catalog", h.s.Starts(), 2)
		upstreamtest.Equal(t, "state of the upstream", h.Snapshot().State, connector.Idle)
		upstreamtest.Equal(t, "tools", len(h.Snapshot().Catalog.Tools), 2)
		upstreamtest.Equal(t, "bob", h.call(t.Context(), bob), `{"ok":1}`)
		time.Sleep(10 * time.Second)
		upstreamtest.Equal(t, "starts with bob", h.s.Starts(), 3)
		time.Sleep(2 * time.Minute)
		for n := range 3 {
			upstreamtest.Equal(t, "ended", h.s.Instance(n+1).Ended(), true)
		}
		upstreamtest.Equal(t, "ann again", h.call(t.Context(), ann), `{"ok":1}`)
		upstreamtest.Equal(t, "starts", h.s.Starts(), 4)
	})
}

// idle_stop ends sessions of clients earlier after a reload, too.
func TestIdleStopOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startSessions(t, upstreamtest.Legacy(upstreamtest.Echo), nil)
		upstreamtest.Equal(t, "ann", h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{})), `{"ok":1}`)
		time.Sleep(5 * time.Minute)
		upstreamtest.Equal(t, "ended without idle_stop", h.s.Instance(2).Ended(), false)
		h.SetLifetime(connector.Lifetime{IdleStop: time.Minute})
		time.Sleep(2 * time.Minute)
		upstreamtest.Equal(t, "ended with idle_stop", h.s.Instance(2).Ended(), true)
	})
}

// The first call to a lazy server over streamable HTTP waits until it is known which
// sessions the server has, and gets the one that declares what its client can do.
func TestLazyOverHTTP(t *testing.T) {
	s := &script{}
	h := startSharedSessions(t, s, lazily, func(o *Options) { o.Era = wire.EraLegacy })
	if got := s.got(wire.MethodInitialize); len(got) > 0 {
		t.Errorf("%d sessions before the first call", len(got))
	}
	if got := h.call(t.Context(), legacyCall("c", `{"elicitation":{}}`, &upstreamtest.Peer{})); got != doneResult {
		t.Errorf("the first call: %s", got)
	}
	if diff := cmp.Diff([]string{`{"elicitation":{"form":{}}}`}, declaredTo(s)); diff != "" {
		t.Error(diff)
	}
}

// A session that takes longer to open than an upstream may be idle is not closed meanwhile,
// and the server does not count as one that opens a single session.
func TestSlowSessionIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var initialized atomic.Int64
		s := &script{on: map[string]on{wire.MethodInitialize: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if initialized.Add(1) > 1 {
				select {
				case <-time.After(5 * time.Minute):
				case <-r.Context().Done():
				}
			}
			w.Header().Set(wire.HeaderSession, fmt.Sprint("s", initialized.Load()))
			answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"logging":{}},"serverInfo":{"name":"script","version":"1"}}`)
		}}}
		h := &sessionsRig{watch: &originWatcher{watcher: newWatcher()}}
		o := testOptions(t, "http://server.test", func(o *Options) {
			o.Server, o.Era, o.Limits = Server{HTTP: serveInMemory(t, s), MaxMessage: 1 << 20}, wire.EraLegacy, connector.Limits{Timeout: time.Hour, StartupWait: time.Hour}
			o.Start.Lifetime = connector.Lifetime{IdleStop: time.Minute}
		})
		o.Observer = h.watch
		h.run(t, *o)
		h.watch.wait(t, isReady)
		defer h.catalogSession.Use()() // by other clients
		name, err := h.Session(t.Context(), legacyCall("c", `{"elicitation":{}}`, &upstreamtest.Peer{}))
		if err != nil || name == "" {
			t.Errorf("the session is %q, %v; want one that declares what the client can do", name, err)
		}
	})
}
