package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpgateway/test/internal/client"
	"mcpgateway/test/internal/netns"
	"mcpgateway/test/internal/process"
	"mcpgateway/test/internal/raw"
	"mcpgateway/test/internal/rig"
)

// front is a reverse proxy between a client and its gateways, without affinity.
type front struct {
	*httptest.Server
	gateways []*url.URL // each serves every n-th request
	requests atomic.Int64
	opened   atomic.Int64 // requests that open a session

	// restart is called before a request that contains restartNow; other requests wait meanwhile.
	restart func()
	mu      sync.RWMutex
	// ends answers DELETE in place of the gateway, which knows a session of before no more: the TypeScript SDK takes its 404 for a failure.
	ends bool
}

// restartNow is the argument of the call before which the gateway restarts.
const restartNow = "restart now"

func newFront(t *testing.T, restart func(), gateways ...*rig.Gateway) *front {
	f := &front{restart: restart}
	for _, g := range gateways {
		target, err := url.Parse(strings.TrimSuffix(g.URL, "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		f.gateways = append(f.gateways, target)
	}
	connections := &http.Transport{}
	silent := log.New(io.Discard, "", 0) // streams break on purpose
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Transport: connections, ErrorLog: silent, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(f.gateways[int(f.requests.Add(1))%len(f.gateways)])
	}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		if r.Method == http.MethodDelete && f.ends {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"initialize"`)) {
			f.opened.Add(1)
		}
		if bytes.Contains(body, []byte(restartNow)) {
			f.mu.Lock()
			f.restart()
			connections.CloseIdleConnections()
			f.mu.Unlock()
		}
		f.mu.RLock()
		f.mu.RUnlock() //lint:ignore SA2001 the lock is held while the gateway restarts
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		connections.CloseIdleConnections()
	})
	return f
}

// shared returns a configuration with an upstream, and with keys if there are any.
func shared(t *testing.T, keys ...string) rig.Config {
	c := rig.Config{"upstreams": rig.Upstreams{"up": startMoody(t, nil).entry(nil)}}
	if len(keys) > 0 {
		c["bridge"] = rig.Config{"keys": keys}
	}
	return c
}

var sealKey = strings.Repeat("5a", 32)

// legacyClients are real clients that open sessions.
func legacyClients() []client.Client {
	return []client.Client{client.V1(), client.V1At("2025-03-26"), client.V2(client.Legacy), client.GoSDK(client.Legacy)}
}

func callStep(text string) client.Step {
	return client.Step{Method: "tools/call", Params: map[string]any{"name": "up__tool", "arguments": map[string]any{"text": text}}}
}

// startRestartable starts a gateway with a configuration, and returns a function that ends it and starts it again on the same addresses.
func startRestartable(t *testing.T, config rig.Config, end func(*process.Process)) (*rig.Gateway, func()) {
	listen, admin := netns.Addr(), netns.Addr()
	config["state_dir"] = t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g := rig.StartGatewayOn(t, listen, admin, file)
	return g, func() {
		end(g.Process)
		g = rig.StartGatewayOn(t, listen, admin, file)
	}
}

// Sessions with sealed ids go on after the gateway was killed, or stopped: the client notices nothing but that its lists may have changed.
func TestSessionsSurviveARestart(t *testing.T) {
	for i, c := range append(legacyClients(), legacyClients()...) {
		how, end := "killed", (*process.Process).Kill
		if i >= len(legacyClients()) {
			how, end = "stopped", func(p *process.Process) {
				if err := p.Stop(soon); err != nil {
					t.Error(err)
				}
			}
		}
		t.Run(c.Name()+", "+how, func(t *testing.T) {
			t.Parallel()
			g, restart := startRestartable(t, shared(t, sealKey), end)
			f := newFront(t, restart, g)
			after := callStep(restartNow)
			after.Await = []client.Want{{Method: "notifications/tools/list_changed"}}
			steps := []client.Step{{Method: "tools/list"}, callStep("before"), after, {Method: "tools/list"}, callStep("after")}
			for i, step := range client.Answering(c).Run(t, client.Target{URL: f.URL + "/mcp", Restart: true}, steps).Steps {
				if step.Error != nil {
					t.Errorf("step %d, %s: %+v", i, step.Method, step.Error)
				}
				told := false
				for _, e := range step.Events {
					told = told || e.Is(client.Want{Method: "notifications/tools/list_changed"})
				}
				if i == 2 && !told {
					t.Errorf("the client was not told that lists have changed: %v", step.Events)
				}
			}
			if n := f.opened.Load(); n != 1 {
				t.Errorf("the client opened %d sessions", n)
			}
		})
	}
}

// Without keys a session ends with the gateway. Its client is told so, and begins anew.
func TestSessionsEndWithTheGateway(t *testing.T) {
	for _, c := range legacyClients() {
		t.Run(c.Name(), func(t *testing.T) {
			g, restart := startRestartable(t, shared(t), (*process.Process).Kill)
			f := newFront(t, restart, g)
			f.ends = true
			steps := []client.Step{callStep("before"), callStep(restartNow)}
			outcomes := c.Run(t, client.Target{URL: f.URL + "/mcp", Restart: true}, steps).Steps
			if before, after := outcomes[0].Error, outcomes[1].Error; before != nil || after == nil {
				t.Errorf("before the restart %+v, after it %+v", before, after)
			}
			again := c.Run(t, client.Target{URL: f.URL + "/mcp", Restart: true}, steps[:1]).Steps
			if again[0].Error != nil {
				t.Errorf("in a new session: %+v", again[0].Error)
			}
		})
	}
	g, restart := startRestartable(t, shared(t), (*process.Process).Kill)
	c, err := raw.Open(t.Context(), g.URL, raw.Legacy)
	if err != nil {
		t.Fatal(err)
	}
	restart()
	answer, err := c.Send(t.Context(), "tools/list", `{}`)
	if err != nil || answer.Status != http.StatusNotFound {
		t.Errorf("status %d, %v", answer.Status, err)
	}
}

// Replicas with the same keys serve one session behind a balancer without affinity.
func TestReplicasServeOneSession(t *testing.T) {
	config := shared(t, sealKey)
	replicas := []*rig.Gateway{rig.StartGateway(t, config), rig.StartGateway(t, config), rig.StartGateway(t, config)}
	for _, c := range legacyClients() {
		t.Run(c.Name(), func(t *testing.T) {
			f := newFront(t, nil, replicas...)
			steps := []client.Step{{Method: "tools/list"}}
			for range 6 {
				steps = append(steps, callStep("hello"))
			}
			for i, step := range c.Run(t, client.Target{URL: f.URL + "/mcp", Restart: true}, steps).Steps {
				if step.Error != nil {
					t.Errorf("step %d, %s: %+v", i, step.Method, step.Error)
				}
			}
			if n := f.opened.Load(); n != 1 {
				t.Errorf("the client opened %d sessions", n)
			}
		})
	}
}
