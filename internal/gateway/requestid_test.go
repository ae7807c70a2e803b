package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/requestid"
	"mcpgateway/internal/upstream/protocol"
)

// Every response of the address of MCP has an id: those of http1server and of net/http, of
// the front end and of the handlers before it.
func TestEveryResponseHasARequestID(t *testing.T) {
	g, _ := start(t, "auth: {mode: none, insecure: true}\n"+aDisabledUpstream, false)
	for name, tt := range map[string]struct {
		head, body string
		status     int
	}{
		"a call":              {"POST /mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		"an unknown tool":     {"POST /mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, 200},
		"a notification":      {"POST /mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202},
		"a parse error":       {"POST /mcp", `{`, 400},
		"over net/http":       {"POST /mcp?x=1", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		"another method":      {"PATCH /mcp", "", 405},
		"a preflight request": {"OPTIONS /mcp", "", 204},
		"HTTP+SSE":            {"POST /sse", "", 405},
		"nothing":             {"GET /", "", 404},
		"far off":             {"GET /a/../b%20c", "", 404},
		"pages for grants":    {"GET /oauth/start", "", 404},
		"a loop":              {"POST /mcp\r\n" + protocol.HeaderVia + ": " + g.loopDetector.Sent(), `{}`, 508},
	} {
		for _, sent := range []string{"", "mine"} {
			t.Run(fmt.Sprintf("%s %q", name, sent), func(t *testing.T) {
				c, err := net.Dial("tcp", g.Addr())
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
