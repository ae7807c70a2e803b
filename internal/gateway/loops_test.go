package gateway

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
)

// relay is a proxy whose target is set after its own URL is known.
type relay struct {
	*httptest.Server
	to    atomic.Pointer[url.URL]
	strip bool // it removes unknown headers
}

func newRelay(t *testing.T, strip bool) *relay {
	t.Helper()
	r := &relay{strip: strip}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(r.to.Load())
			if strip {
				p.Out.Header.Del(protocol.HeaderVia)
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if strip {
				resp.Header.Del(protocol.HeaderVia)
			}
			return nil
		},
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.to.Load() == nil {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *relay) leadTo(g *Gateway) { r.to.Store(&url.URL{Scheme: "http", Host: g.Addr()}) }

func (g *Gateway) snapshotOf(name string) connector.Snapshot {
	if m := g.generation.Load().entry(name); m != nil {
		return m.conn.sessions.Snapshot()
	}
	return connector.Snapshot{}
}

// A gateway that is its own upstream refuses itself with every transport, even if its
// configuration does not show the loop.
func TestOwnUpstream(t *testing.T) {
	for name, test := range map[string]struct {
		entry, path string
		strip       bool
		want        string
	}{
		"auto":                      {"", "/mcp", false, "it leads back to this gateway"},
		"legacy":                    {"era: legacy", "/mcp", false, "it leads back to this gateway"},
		"modern":                    {"era: modern", "/mcp", false, "it leads back to this gateway"},
		"HTTP+SSE":                  {"transport: sse", "/sse", false, "it leads back to this gateway"},
		"without headers":           {"", "/mcp", true, "has come back to the gateway that sent it"},
		"without headers, HTTP+SSE": {"transport: sse", "/sse", true, "has come back to the gateway that sent it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelay(t, test.strip)
			g, _ := start(t, "startup_wait: 100ms\nupstreams: {a: {url: \""+r.URL+test.path+"\", "+test.entry+"}}\n", false)
			r.leadTo(g)
			polltest.UntilNil(t, "the upstream is refused", func() error {
				if s := g.snapshotOf("a"); s.State != connector.Down || !strings.Contains(s.Reason, test.want) {
					return fmt.Errorf("the upstream is %v: %s", s.State, s.Reason)
				}
				// The table that clients see is built after the upstream has changed.
				if _, list := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(list, test.want) {
					return fmt.Errorf("the answer to clients does not name the loop: %s", list)
				}
				return nil
			})
		})
	}
}

// Two gateways that are each other's upstream do not list each other's tools endlessly: one
// direction is refused, and the other one works.
func TestUpstreamsOfOneAnother(t *testing.T) {
	for name, strip := range map[string]bool{"by headers": false, "without headers one way": true} {
		t.Run(name, func(t *testing.T) {
			tools, _ := start(t, "", true)
			toA, toB := newRelay(t, strip), newRelay(t, false)
			yaml := func(name string, r *relay) string {
				return "startup_wait: 100ms\nupstreams:\n  own: {url: \"http://" + tools.Addr() + "/mcp\"}\n  " + name + ": {url: \"" + r.URL + "/mcp\"}\n"
			}
			a, _ := start(t, yaml("b", toB), false)
			b, _ := start(t, yaml("a", toA), false)
			toA.leadTo(a)
			toB.leadTo(b)
			polltest.UntilNil(t, "one direction is refused and the other one works", func() error {
				ab, ba := a.snapshotOf("b"), b.snapshotOf("a")
				up, down := ab, ba
				if !up.Up() {
					up, down = ba, ab
				}
				if !up.Up() || down.State != connector.Down || !strings.Contains(down.Reason, "leads back") {
					return fmt.Errorf("A sees B %v (%s), and B sees A %v (%s)", ab.State, ab.Reason, ba.State, ba.Reason)
				}
				return nil
			})
			for _, g := range []*Gateway{a, b} {
				polltest.UntilNil(t, "the list has the items outside of the loop", func() error {
					_, list := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
					if strings.Contains(list, `"a__b__a`) || strings.Contains(list, `"b__a__b`) {
						t.Fatalf("the list has grown: %s", list)
					}
					if !strings.Contains(list, `"own__clock__now"`) {
						return fmt.Errorf("the list is %s", list)
					}
					return nil
				})
			}
		})
	}
}

// Answers to a client that is not a gateway have no loop detection headers.
func TestLoopHeadersAreForGatewaysOnly(t *testing.T) {
	g, _ := start(t, "", true)
	resp, body := post(t, g, "", initialize)
	if resp.Header.Get(protocol.HeaderVia) != "" || strings.Contains(body, protocol.MetaVia) {
		t.Errorf("a client learns of gateways: %v, %s", resp.Header, body)
	}
}
