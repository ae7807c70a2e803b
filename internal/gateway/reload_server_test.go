package gateway

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/wire"
)

// scripted is a legacy server with sessions. Its only tool answers with the server's name.
type scripted struct {
	URL  string
	name string
	tool string      // the listed tool; by default the name of the server
	dead atomic.Bool // every request gets 503
	// tools/list waits until list is closed, and tools/call until call is closed. nil means no wait.
	list, call chan struct{}

	opened, calls atomic.Int64 // counts of sessions and calls
	closed        chan struct{}
	once          sync.Once
}

func newScripted(t *testing.T, name string) *scripted {
	s := &scripted{name: name, closed: make(chan struct{})}
	web := httptest.NewServer(s)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	s.URL = web.URL
	return s
}

// entry returns the upstream's entry in a configuration.
func (s *scripted) entry(more string) string {
	return fmt.Sprintf("{url: %q, era: legacy, transport: streamable-http%s}", s.URL, more)
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.dead.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	if r.Method == http.MethodDelete {
		s.once.Do(func() { close(s.closed) })
		return
	}
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := wire.Parse(body, wire.Limits{})
	if err != nil || !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	held, result := (chan struct{})(nil), `{}`
	switch m.Method {
	case wire.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.opened.Add(1)))
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	case wire.MethodToolsList:
		held, result = s.list, `{"tools":[{"name":"`+cmp.Or(s.tool, s.name)+`","inputSchema":{"type":"object"}}]}`
	case wire.MethodToolsCall:
		s.calls.Add(1)
		held, result = s.call, `{"content":[{"type":"text","text":"from `+s.name+`"}]}`
	}
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}
