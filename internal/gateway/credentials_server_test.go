package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpgateway/internal/gatewaytest"
)

// vault is an MCP server that requires tokens of an authorization server. Its tool who
// returns the subject of the call's token and the header X-User. Its tool write does the
// same, and requires the scope write in the modern era.
type vault struct {
	url string

	mu   sync.Mutex
	seen []http.Header
}

func newVault(t *testing.T, as *gatewaytest.AuthServer, stateless bool, scopes ...string) *vault {
	t.Helper()
	v := &vault{}
	server := mcp.NewServer(&mcp.Implementation{Name: "vault", Version: "1"}, nil)
	for _, name := range []string{"who", "write"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := r.Extra.TokenInfo.UserID + " as " + r.Extra.Header.Get("X-User")
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	mux := http.NewServeMux()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.seen = append(v.seen, r.Header.Clone())
		v.mu.Unlock()
		if r.Header.Get("Mcp-Name") == "write" {
			if _, scopes, _ := as.TokenSubject(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), v.url); !slices.Contains(scopes, "write") {
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
				w.WriteHeader(http.StatusForbidden)
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	v.url = srv.URL + "/mcp"
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		sub, scopes, ok := as.TokenSubject(token, v.url)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: sub, Scopes: scopes, Expiration: time.Now().Add(time.Minute)}, nil
	}
	metadata := srv.URL + "/.well-known/oauth-protected-resource/mcp"
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata, Scopes: scopes})(handler))
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: v.url, AuthorizationServers: []string{as.URL}, ScopesSupported: scopes,
	}))
	return v
}
