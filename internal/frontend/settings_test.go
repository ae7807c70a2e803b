package frontend

import (
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// New settings apply to later requests.
func TestSettingsChange(t *testing.T) {
	s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{"name":"g","version":"1"}`), LoopbackListener: true})
	status := func() int {
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Host = "gateway.example"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "https://page.example")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	if got := status(); got != 403 {
		t.Errorf("before: status %d", got)
	}
	s.Set(Settings{AllowedHosts: []string{"gateway.example"}, AllowedOrigins: []string{"https://page.example"}})
	if got := status(); got == 403 {
		t.Error("a request is refused that is allowed now")
	}
	s.Set(Settings{})
	if got := status(); got != 403 {
		t.Errorf("after: status %d", got)
	}
}
