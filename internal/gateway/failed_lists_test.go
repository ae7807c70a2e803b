package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/statedir"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// listServer is an HTTP upstream with one tool and, if prompts is not nil, one prompt. tools and
// prompts answer the list while they are set.
type listServer struct {
	tools, prompts *atomic.Pointer[http.HandlerFunc]
	instructions   string
}

// start returns the URL of the server.
func (l listServer) start(t *testing.T) string {
	s := l.unstarted()
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func (l listServer) unstarted() *httptest.Server {
	capabilities := `"tools":{}`
	if l.prompts != nil {
		capabilities += `,"prompts":{}`
	}
	return httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Parse(body, wire.Limits{})
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result, answer := `{}`, (*atomic.Pointer[http.HandlerFunc])(nil)
		switch m.Method {
		case wire.MethodInitialize:
			result = fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{%s},"serverInfo":{"name":"s","version":"1"},"instructions":%q}`, capabilities, l.instructions)
		case wire.MethodToolsList:
			result, answer = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, l.tools
		case wire.MethodPromptsList:
			result, answer = `{"prompts":[{"name":"p"}]}`, l.prompts
		case wire.MethodDiscover:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if answer != nil {
			if fail := answer.Load(); fail != nil {
				(*fail)(w, r)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
}

// An upstream that does not answer its list is named, as one that is down is, and is no
// empty list. It recovers by itself.
func TestUpstreamThatFailsItsList(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"error":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "the server answered HTTP 500"},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "the server answered HTTP 200 with"},
		"hangs":   {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer within 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			var broken, good atomic.Pointer[http.HandlerFunc]
			broken.Store(&tt.answer)
			g, _ := start(t, fmt.Sprintf("upstreams: {broken: {url: %q, timeout: 2s, required: true}, good: {url: %q}}", listServer{tools: &broken}.start(t), listServer{tools: &good}.start(t)), false)
			const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
			_, got := post(t, g, "", list)
			if !strings.Contains(got, `"good__t"`) || !strings.Contains(got, `"mcpgateway/unavailable":[{"upstream":"broken"`) || !strings.Contains(got, `"reason":"tools/list: `+tt.reason) {
				t.Errorf("list %s", got)
			}
			if _, got := post(t, g, "", `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`); strings.Contains(got, "broken") {
				t.Errorf("the list of prompts names it: %s", got)
			}
			if _, got := post(t, g, "", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"broken__t"}}`); !strings.Contains(got, "-32603") || !strings.Contains(got, tt.reason) {
				t.Errorf("call %s", got)
			}
			if waits := g.waitingFor(reasonForAll); len(waits) != 1 || !strings.Contains(waits[0], "required upstream broken answers no list: tools/list: "+tt.reason) {
				t.Errorf("readiness waits for %q", waits)
			}
			if got := gauge(t, g, `mcp_gateway_upstream_degraded{upstream="broken"}`); got != "1" {
				t.Errorf("degraded is %q", got)
			}
			broken.Store(nil)
			polltest.Until(t, "the list is whole", func() bool {
				_, got = post(t, g, "", list)
				return strings.Contains(got, `"broken__t"`) && !strings.Contains(got, "unavailable")
			})
			if waits := g.waitingFor(reasonForAll); len(waits) != 0 {
				t.Errorf("readiness waits for %q", waits)
			}
			if got := gauge(t, g, `mcp_gateway_upstream_degraded{upstream="broken"}`); got != "0" {
				t.Errorf("degraded is %q", got)
			}
		})
	}
}

// A gateway is ready although an optional upstream does not answer its list, and says so.
func TestReadyNamesFailedLists(t *testing.T) {
	var broken atomic.Pointer[http.HandlerFunc]
	fail := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	broken.Store(&fail)
	g, _ := start(t, fmt.Sprintf("upstreams: {broken: {url: %q}, good: {url: %q}}", listServer{tools: &broken}.start(t), listServer{tools: new(atomic.Pointer[http.HandlerFunc])}.start(t)), false)
	polltest.Until(t, "the gateway is ready", func() bool { return len(g.waitingFor(reasonForAll)) == 0 })
	ready := page(t, g, "/readyz")
	if !regexp.MustCompile(`"failing":\["upstream broken is degraded since \S+Z: tools/list: the server answered HTTP 502[^"]*"\]`).MatchString(ready) {
		t.Error(ready)
	}
}

// If no upstream answers the list, the answer is an error.
func TestEveryListFails(t *testing.T) {
	var broken atomic.Pointer[http.HandlerFunc]
	fail := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	broken.Store(&fail)
	g, _ := start(t, fmt.Sprintf("upstreams: {broken: {url: %q}}", listServer{tools: &broken}.start(t)), false)
	if _, got := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, "the upstream broken is unavailable: tools/list: the server answered HTTP 502") {
		t.Errorf("list %s", got)
	}
}

// A list that was never gathered in this run has the items of the run before, and names the
// upstream.
func TestFailedListHasTheItemsOfTheRunBefore(t *testing.T) {
	g := newIdleGateway(t, "upstreams: {files: {command: cat}}")
	tool := wire.Raw(`{"name":"read","inputSchema":{"type":"object"}}`)
	g.generation.Load().entry("files").conn.remembered = func() *statedir.Catalog {
		return &statedir.Catalog{Tools: statedir.FromRaw([]wire.Raw{tool})}
	}
	g.setSnapshot(connector.Snapshot{
		Name: "files", State: connector.Degraded, Settled: true, Revision: wire.Rev20251125, Since: time.Now(), Capabilities: wire.Raw(`{"tools":{}}`),
		Failed: connector.FailedLists{Tools: connector.FailedList{Reason: "tools/list: gone", Since: time.Now()}},
	})
	g.rebuild(t.Context(), time.Now())
	if got := tools(t, g); !strings.Contains(got, `"files__read"`) || !strings.Contains(got, `"reason":"tools/list: gone"`) {
		t.Errorf("list %s", got)
	}
}

// A call of a server of which nothing is known, because it was down since the start, is answered as soon as
// the server is there, whatever is left of the pause before the next attempt.
func TestCallReachesAServerThatWasDownAtTheStart(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.2:0") // where no other test listens meanwhile
	if err != nil {
		t.Fatal(err)
	}
	at := port.Addr().String()
	port.Close()
	log, lines := observer.New(zap.DebugLevel)
	g, _ := startLogged(t, fmt.Sprintf("upstreams: {late: {url: 'http://%s/mcp', breaker: {failures: 0}}}", at), false, zap.New(log))
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"late__t"}}`
	polltest.Until(t, "the pauses have grown", func() bool { return lines.FilterMessage("no connection").Len() >= 4 })
	if _, got := post(t, g, "", call); !strings.Contains(got, "cannot connect to the server") {
		t.Fatalf("without the server: %s", got)
	}
	if port, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	s := listServer{tools: new(atomic.Pointer[http.HandlerFunc])}.unstarted()
	s.Listener.Close()
	s.Listener = port
	s.Start()
	t.Cleanup(s.Close)
	if _, got := post(t, g, "", call); !strings.Contains(got, `"result"`) {
		t.Errorf("with the server: %s", got)
	}
}
