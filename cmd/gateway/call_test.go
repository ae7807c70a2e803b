package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcpgateway/internal/granting"
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
			reply = `"error":{"code":-32603,"message":"no grant","data":{"reason":"it needs a grant; ` + granting.NeedsURLs + `"}}`
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
