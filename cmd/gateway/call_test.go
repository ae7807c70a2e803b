package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// newAsking returns the URL of a server whose tool wants an address opened. It names the address only to a client that
// declares URLs, as a gateway does.
func newAsking(t *testing.T) string {
	var mu sync.Mutex
	opens := make(map[string]bool) // by session
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Parse(body, wire.Limits{})
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		reply := `"result":{}`
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case wire.MethodInitialize:
			session := fmt.Sprint("s", len(opens))
			opens[session] = wire.ValueOf(m.Params).Get("capabilities").Get("elicitation").Get("url").Exists()
			w.Header().Set("Mcp-Session-Id", session)
			reply = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case wire.MethodToolsList:
			reply = `"result":{"tools":[{"name":"open","inputSchema":{"type":"object"}}]}`
		case wire.MethodDiscover:
			w.WriteHeader(http.StatusBadRequest)
			return
		case wire.MethodToolsCall:
			reply = `"error":{"code":-32603,"message":"no grant","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`
			if opens[r.Header.Get("Mcp-Session-Id")] {
				reply = `"error":{"code":-32042,"message":"s needs a grant","data":{"elicitations":[{"mode":"url","url":"https://login.example/start"}]}}`
			}
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, reply)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// Without a terminal, call prints the address that a server wants opened.
func TestCallPrintsAddresses(t *testing.T) {
	const want = "gateway: s needs a grant\n  open this address, then call again: https://login.example/start\n1"
	if got := verb(t, "call", "open", "--url", newAsking(t), "--timeout", "1m"); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at the end\n%s", got, want)
	}
}

// Without a terminal and without authentication, call prints the address of the page on which its user grants access, whether the
// gateway lists the tool or not: before the first grant it does not, after the loss of one it does.
func TestCallPrintsAddressOfTheGrant(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, nil)
	server := httptest.NewServer(granted(as))
	defer server.Close()
	cfg, err := config.Parse("gateway.yaml", fmt.Appendf(nil, "upstreams: {t: {url: %q, auth: {kind: user}}}\n", server.URL+"/mcp"), lookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	g, err := gateway.New(gateway.Options{Config: cfg, Version: "test", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	call := func() string { return verb(t, "call", "t__who", "--url", g.URL(), "--timeout", "1m") }
	address := func(what, got string) string {
		t.Helper()
		_, at, ok := strings.Cut(strings.TrimSuffix(got, "\n1"), "\n  open this address, then call again: ")
		if !ok {
			t.Fatalf("%s: %s", what, got)
		}
		return at
	}

	first := address("before the first grant", call())
	as.SetLifetime(2 * time.Second)
	jar, _ := cookiejar.New(nil) // no error without options
	resp, err := (&http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}).Get(first)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(page), "Access to t is granted") {
		t.Fatalf("%v: %s", err, page)
	}
	polltest.Until(t, "the gateway lists the tool", func() bool { return strings.Contains(verb(t, "list", "tools", "--url", g.URL()), "t__who") })
	if got := call(); got != "granted\n0" {
		t.Fatalf("with a grant: %s", got)
	}
	as.RevokeRefreshTokens()
	lost := ""
	polltest.Until(t, "the grant is refused", func() bool {
		lost = call()
		return strings.Contains(lost, "needs a grant of its user")
	})
	if listed := verb(t, "list", "tools", "--url", g.URL()); !strings.Contains(listed, "t__who") {
		t.Fatalf("the tool is not listed any more: %s", listed)
	}
	if again := address("after the loss of the grant", lost); again == first {
		t.Errorf("the address %s is used", again)
	}
}

// granted is an MCP server with one tool, for those who have a token of an authorization server.
func granted(as *gatewaytest.AuthServer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		self := "http://" + r.Host + "/mcp"
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/mcp" {
			fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, self, as.URL)
			return
		}
		if _, _, ok := as.TokenSubject(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), self); !ok {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+"http://"+r.Host+`/meta", scope="read"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Parse(body, wire.Limits{})
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		reply := `"error":{"code":-32601,"message":"no such method"}`
		switch m.Method {
		case wire.MethodInitialize:
			reply = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}`
		case wire.MethodToolsList:
			reply = `"result":{"tools":[{"name":"who","inputSchema":{"type":"object"}}]}`
		case wire.MethodToolsCall:
			reply = `"result":{"content":[{"type":"text","text":"granted"}]}`
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, reply)
	}
}
