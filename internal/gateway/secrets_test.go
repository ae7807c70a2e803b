package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// repeater is an MCP server that repeats the credentials of each call of a tool in an error, and those of a list of
// resources. It remembers them.
type repeater struct {
	url string

	mu     sync.Mutex
	tokens map[string]bool
}

func newRepeater(t *testing.T) *repeater {
	t.Helper()
	r := &repeater{tokens: make(map[string]bool)}
	srv := httptest.NewServer(r)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	r.url = srv.URL + "/mcp"
	return r
}

// ServeHTTP implements [http.Handler].
func (r *repeater) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	switch {
	case req.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case json.NewDecoder(req.Body).Decode(&m) != nil || m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	authorization := req.Header.Get("Authorization")
	if token, ok := strings.CutPrefix(authorization, "Bearer "); ok {
		r.mu.Lock()
		r.tokens[token] = true
		r.mu.Unlock()
	}
	answer := `"error":{"code":-32601,"message":"no such method"}`
	switch m.Method {
	case "initialize":
		answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"r","version":"1"}}`
	case "tools/list":
		answer = `"result":{"tools":[{"name":"who","inputSchema":{"type":"object"}}]}`
	case "tools/call", "resources/list":
		text, _ := json.Marshal("bad auth " + authorization + " " + url.QueryEscape(authorization))
		answer = `"error":{"code":-32050,"message":` + string(text) + `}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
}

// containsToken reports whether a text contains a token that the server has received.
func (r *repeater) containsToken(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for token := range r.tokens {
		if strings.Contains(text, token) {
			return true
		}
	}
	return false
}

// TestTokensAreHidden has servers that repeat in errors the tokens that the gateway obtained. The caller gets the error
// as it was sent. The log, the status, and what other principals read have no token.
func TestTokensAreHidden(t *testing.T) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	for _, kind := range []string{"client-credentials", "token-exchange", "user"} {
		t.Run(kind, func(t *testing.T) {
			up := newRepeater(t)
			how := fmt.Sprintf("{kind: %s, client_id: gw, client_secret: pass, issuer: IDP}", kind)
			c := startCredentials(t, idp, fmt.Sprintf("  up: {url: %q, auth: %s}\n", up.url, how), func(cfg *config.Config) {
				if kind == "user" {
					logIn(t, "up")(cfg)
				}
			})
			ann, more := c.tokenOf("ann"), ""
			if kind == "user" {
				link, state, key := urlAsked(t, c.modern(ann, "up__who", opensURLs, ""))
				idp.SetUser("ann")
				wantText(t, browse(t, link), "is granted")
				more = fmt.Sprintf(`,"requestState":%q,"inputResponses":{%q:{"action":"accept"}}`, state, key)
			}
			if got := c.modern(ann, "up__who", opensURLs, more); !up.containsToken(got) || !strings.Contains(got, "bad auth Bearer ") {
				t.Errorf("the caller does not get the error as it was sent: %s", got)
			}
			polltest.Until(t, "the log has the call without the token", func() bool {
				for _, line := range c.logs.FilterMessage("call").All() {
					if strings.Contains(fmt.Sprint(line.ContextMap()["reason"]), "bad auth Bearer [redacted] Bearer+[redacted]") {
						return true
					}
				}
				return false
			})
			polltest.Until(t, "the log says that there is no list", func() bool { return c.logs.FilterMessage("cannot gather a list").Len() > 0 })
			for _, line := range c.logs.All() {
				if text := fmt.Sprint(line.Message, line.ContextMap()); up.containsToken(text) {
					t.Errorf("the log has a token: %s", text)
				}
			}
			_, list := c.post(c.tokenOf("bob"), `{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "resources/list")
			if up.containsToken(list) || !strings.Contains(list, "bad auth ") {
				t.Errorf("another principal reads %s", list)
			}
			status, err := c.g.Status()
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			if up.containsToken(string(text)) || !strings.Contains(string(text), "bad auth ") {
				t.Errorf("the status is %s", text)
			}
		})
	}
}

// A key in the path of a refused request is hidden, also one that is cut there.
func TestKeysInPathsAreHidden(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	g, _ := startLogged(t, profilesYAML(""), true, zap.New(core))
	key, _ := auth.NewKey()
	for _, path := range []string{"/mcp/" + key, "/" + key, "/a-longer-path-than-one-that-leaves-room-for-it/" + key} {
		at, err := url.Parse(g.URL())
		if err != nil {
			t.Fatal(err)
		}
		at.Path = path
		resp, err := http.Post(at.String(), "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	hidden := 0
	for _, line := range logs.All() {
		text := fmt.Sprint(line.ContextMap())
		if strings.Contains(text, key[:len(auth.KeyPrefix)+8]) {
			t.Errorf("the log has the key: %s", text)
		}
		if strings.Contains(text, "/"+auth.KeyPrefix+"[redacted]") {
			hidden++
		}
	}
	if hidden != 3 {
		t.Errorf("%d lines with a path, want 3: %v", hidden, logs.All())
	}
}

// The cause of an error of credentials stays on the line, in words of the gateway.
func TestCausesAreOnOneLine(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("it\nfailed%w", errors.New(": why\n\tnot")), "it failed: why not: : why not"},
		{errors.New("no cause"), "no cause"},
	} {
		if got := withCause(tt.err); got.Key != "error" || got.String != tt.want {
			t.Errorf("got %s %q, want %q", got.Key, got.String, tt.want)
		}
	}
}

// A secret in the path of a URL is hidden where the gateway says that nothing answers there.
func TestSecretsInPathsOfURLsAreHidden(t *testing.T) {
	const secret = "NzU2OTVmMmQtNGI1Zi00ODE5"
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	core, logs := observer.New(zap.InfoLevel)
	g, _ := startLogged(t, fmt.Sprintf("upstreams:\n  up: {url: \"%s/s/%s/mcp\"}\n", srv.URL, secret), false, zap.New(core))
	polltest.Until(t, "the log says that there is no connection", func() bool { return logs.FilterMessage("no connection").Len() > 0 })
	why := fmt.Sprint(logs.FilterMessage("no connection").All()[0].ContextMap()["why"])
	if want := srv.URL + "/s/[redacted]/mcp answered HTTP 404"; !strings.Contains(why, want) {
		t.Errorf("got %q, want %q", why, want)
	}
	status, err := g.Status()
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(g.Upstreams(), status, logs.All()); strings.Contains(text, secret) {
		t.Errorf("the secret is in %s", text)
	}
}
