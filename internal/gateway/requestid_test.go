package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/instance"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/upstream/protocol"
)

// Every response has an id: at the address of MCP those of http1server and of net/http, of the front end and of the
// handlers before it; at the admin address and at the socket of the gateway's user all.
func TestEveryResponseHasARequestID(t *testing.T) {
	level, dir := zap.NewAtomicLevelAt(zap.InfoLevel), t.TempDir()
	g, _ := startWith(t, "auth: {mode: none, insecure: true}\n"+aDisabledUpstream, Options{Logger: zap.NewNop(), LogLevel: &level, StateDirs: []string{dir}})
	<-g.started
	page(t, g, "/healthz") // nothing is answered before the socket is there
	socket := instance.Find(dir)
	if len(socket) != 1 {
		t.Fatalf("%d sockets", len(socket))
	}
	dials := map[string]func() (net.Conn, error){
		"mcp":    func() (net.Conn, error) { return net.Dial("tcp", g.Addr()) },
		"admin":  func() (net.Conn, error) { return net.Dial("tcp", g.AdminAddr()) },
		"socket": func() (net.Conn, error) { return socket[0].Transport().DialContext(t.Context(), "", "") },
	}
	for name, tt := range map[string]struct {
		at, head, body string
		status         int
	}{
		"a call":                 {"mcp", "POST /mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		"an unknown tool":        {"mcp", "POST /mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, 200},
		"a notification":         {"mcp", "POST /mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202},
		"a parse error":          {"mcp", "POST /mcp", `{`, 400},
		"over net/http":          {"mcp", "POST /mcp?x=1", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		"another method":         {"mcp", "PATCH /mcp", "", 405},
		"a preflight request":    {"mcp", "OPTIONS /mcp", "", 204},
		"HTTP+SSE":               {"mcp", "POST /sse", "", 405},
		"nothing":                {"mcp", "GET /", "", 404},
		"far off":                {"mcp", "GET /a/../b%20c", "", 404},
		"pages for grants":       {"mcp", "GET /oauth/start", "", 404},
		"a loop":                 {"mcp", "POST /mcp\r\n" + protocol.HeaderVia + ": " + g.loopDetector.Sent(), `{}`, 508},
		"admin: metrics":         {"admin", "GET /metrics", "", 200},
		"admin: readiness":       {"admin", "GET /readyz", "", 200},
		"admin: health":          {"admin", "GET /healthz", "", 200},
		"admin: the console":     {"admin", "GET /ui", "", 200},
		"admin: an asset":        {"admin", "GET /ui/static/x/y", "", 404},
		"admin: the level":       {"admin", "PUT /-/loglevel", `{"level":"warn"}`, 200},
		"admin: refused":         {"admin", "GET /-/status", "", 403},
		"admin: of a page":       {"admin", "POST /-/reload\r\nOrigin: http://127.0.0.1", "", 403},
		"admin: an origin":       {"admin", "GET /metrics\r\nOrigin: http://page.example", "", 403},
		"admin: another method":  {"admin", "DELETE /metrics", "", 405},
		"admin: nothing":         {"admin", "GET /nothing", "", 404},
		"socket: readiness":      {"socket", "GET /readyz", "", 200},
		"socket: status":         {"socket", "GET /-/status", "", 200},
		"socket: the level":      {"socket", "PUT /-/loglevel", `{"level":"info"}`, 200},
		"socket: nothing":        {"socket", "GET /nothing", "", 404},
		"socket: another method": {"socket", "PUT /readyz", "", 405},
	} {
		for _, sent := range []string{"", "mine"} {
			t.Run(fmt.Sprintf("%s %q", name, sent), func(t *testing.T) {
				c, err := dials[tt.at]()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				line, header, _ := strings.Cut(tt.head, "\r\n")
				if header != "" {
					header += "\r\n"
				}
				if sent != "" {
					header += requestid.Header + ": " + sent + "\r\n"
				}
				if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
					line, g.Addr(), len(tt.body), header, tt.body); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				id := resp.Header.Get(requestid.Header)
				if !requestid.Valid(id) || sent != "" && id != sent || len(resp.Header[requestid.Header]) != 1 || resp.StatusCode != tt.status {
					t.Errorf("%s, id %q: %s", resp.Status, id, body)
				}
				if strings.Contains(string(body), `"error"`) && !strings.Contains(string(body), `"requestId":"`+id+`"`) {
					t.Errorf("the error lacks the id: %s", body)
				}
			})
		}
	}
}

// The id of a response is the one that the HTTP upstream got for the call, also if the client made it.
func TestRequestIDReachesUpstreams(t *testing.T) {
	g := startAuth(t, `audience: "`+public+`/mcp"`, "")
	bearer := "Bearer " + g.token("plain:all")
	for _, upstream := range []string{"legacy", "modern"} {
		for _, sent := range []string{"", "from-a-proxy"} {
			before := len(g.headers())
			resp := g.send(t, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+upstream+`__plain"}}`,
				"Authorization", bearer, requestid.Header, sent)
			id, found := resp.header.Get(requestid.Header), 0
			for _, h := range g.headers()[before:] {
				if h.Get(requestid.Header) == id {
					found++
				}
			}
			if !strings.Contains(resp.body, `"result"`) || found != 1 || sent != "" && id != sent {
				t.Errorf("%s, sent %q: %d messages with the id %q: %s", upstream, sent, found, id, resp.body)
			}
		}
	}
}

// A refused request for the pages of grants has a line with its id, and without the link, the code
// and the state that it sent.
func TestRefusedPagesOfGrantsAreLogged(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	g, _ := startLogged(t, "auth: {mode: none, insecure: true}\n"+aDisabledUpstream, false, zap.New(core))
	for i, path := range []string{"/oauth/start?id=s3cret", "/oauth/callback?code=s3cret&state=s3cret"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(requestid.Header, fmt.Sprint("r", i))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		lines := logs.FilterMessage("no grant was given").All()
		if resp.StatusCode < 400 || len(lines) != i+1 || lines[i].ContextMap()["request"] != fmt.Sprint("r", i) {
			t.Errorf("%s: %s, logged %v", path, resp.Status, lines)
		}
	}
	for _, line := range logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "s3cret") {
			t.Errorf("the log has %s", text)
		}
	}
}

// Each request that the admin address refuses, or that changes the level of the log, has a line with its id.
func TestLinesOfTheAdminAddressHaveTheRequestID(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	level := zap.NewAtomicLevelAt(zap.InfoLevel)
	g, _ := startWith(t, "auth: {mode: none, insecure: true}\n"+aDisabledUpstream, Options{Logger: zap.New(core), LogLevel: &level})
	for _, tt := range []struct {
		method, path, body, line string
		status                   int
	}{
		{http.MethodGet, "/-/status", "", "admin request refused", 403},
		{http.MethodPut, "/-/loglevel", `{"level":"warn"}`, "the level of the log was changed", 200},
		{http.MethodPut, "/-/loglevel", `{"level":"debug"}`, "the level of the log was changed", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+g.AdminAddr()+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		id := resp.Header.Get(requestid.Header)
		if n := logs.FilterMessage(tt.line).FilterField(zap.String("request", id)).Len(); resp.StatusCode != tt.status || id == "" || n != 1 {
			t.Errorf("%s %s: %s, %d lines with the id %q: %v", tt.method, tt.path, resp.Status, n, id, logs.FilterMessage(tt.line).All())
		}
	}
}

// Heads that the HTTP server itself refuses have no id, and docs/operations.md says which statuses they get.
func TestRefusedHeadsHaveNoRequestID(t *testing.T) {
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "gets 400, 417, 501 or 505 from the HTTP server"; !strings.Contains(strings.Join(strings.Fields(string(guide)), " "), want) {
		t.Errorf("docs/operations.md does not say: %s", want)
	}
	g, _ := start(t, "auth: {mode: none, insecure: true}\n"+aDisabledUpstream, false)
	for head, status := range map[string]int{
		"GET / HTTP/1.1\r\n": 400, "POST / HTTP/1.1\r\nHost: g\r\nExpect: x\r\nContent-Length: 1\r\n": 417,
		"POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: gzip\r\n": 501, "GET / HTTP/3.0\r\nHost: g\r\n": 505,
	} {
		for _, addr := range []string{g.Addr(), g.AdminAddr()} {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, head+"\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != status || resp.Header.Get(requestid.Header) != "" {
				t.Errorf("%.60q: %s, %v", head, resp.Status, resp.Header)
			}
		}
	}
}
