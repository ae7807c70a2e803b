package frontend

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Streams without an end of their own end when the credentials of the client expire.
func TestStreamsEndWithTheCredentials(t *testing.T) {
	const brief = 50 * time.Millisecond
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), Authenticate: func(r *http.Request) (*call.Principal, error) {
		who := &call.Principal{Subject: "ann", AuthMethod: "jwt"}
		if r.Header.Get("Brief") != "" {
			who.Expires = time.Now().Add(brief)
		}
		return who, nil
	}})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)
	mux.HandleFunc("/sse", s.ServeSSE)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	do := func(verb, path, body string, headers ...string) *http.Response {
		t.Helper()
		// The test fails if the stream goes on.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, verb, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	session := do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`).Header.Get(wire.HeaderSession)
	if session == "" {
		t.Fatal("there is no session")
	}
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for name, resp := range map[string]*http.Response{
		"GET":      do(http.MethodGet, "/mcp", "", wire.HeaderSession, session, "Brief", "1"),
		"HTTP+SSE": do(http.MethodGet, "/sse", "", "Brief", "1"),
		"listen":   do(http.MethodPost, "/mcp", listen, wire.HeaderVersion, "2026-07-28", wire.HeaderMethod, "subscriptions/listen", "Brief", "1"),
	} {
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, resp.Status)
		}
		if text, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: %v after %s", name, err, text)
		}
	}
	// The session still exists for a client with new credentials.
	if resp := do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, wire.HeaderSession, session); resp.StatusCode != http.StatusOK {
		t.Errorf("the session is gone: %s", resp.Status)
	}
}
