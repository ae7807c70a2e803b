package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/statedir"
	"mcpgateway/internal/wire"
)

// halfServer is an HTTP upstream whose prompts cannot be listed while broken is set, nor its
// tools while silent is set.
func halfServer(t *testing.T, instructions string, broken, silent *atomic.Bool) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Parse(body, wire.Limits{})
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{}`
		switch {
		case m.Method == wire.MethodInitialize:
			result = fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"},"instructions":%q}`, instructions)
		case m.Method == wire.MethodToolsList && !silent.Load():
			result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
		case m.Method == wire.MethodPromptsList && !broken.Load():
			result = `{"prompts":[{"name":"p"}]}`
		case m.Method == wire.MethodDiscover, m.Method == wire.MethodToolsList, m.Method == wire.MethodPromptsList:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// A gateway in the process of a verb remembers what upstreams offer, also if one of their
// lists fails. What is known of a list from an earlier run stays.
func TestRememberedInProcess(t *testing.T) {
	var broken, silent atomic.Bool
	url, state := halfServer(t, "Be kind.", &broken, &silent), t.TempDir()
	yaml := fmt.Sprintf("upstreams: {half: {url: %q}}", url)
	visit := func() *statedir.Catalog {
		g := inProcess(t, yaml, state, nil)
		if err := g.RunInProcess(t.Context(), func(ctx context.Context, p *InProcess) error { return p.WaitStarted(ctx) }); err != nil {
			t.Fatal(err)
		}
		return g.state.Catalog(g.generation.Load().entries[0].conn.key)
	}

	broken.Store(true)
	silent.Store(true)
	if c := visit(); c != nil {
		t.Errorf("without any list: %+v", c)
	}
	silent.Store(false)
	if c := visit(); c == nil || len(c.Tools) != 1 || len(c.Prompts) != 0 || !c.Partial || c.Instructions != "Be kind." || c.Capabilities == nil {
		t.Fatalf("with a list that fails: %+v", c)
	}
	broken.Store(false)
	if c := visit(); c == nil || len(c.Tools) != 1 || len(c.Prompts) != 1 || c.Partial {
		t.Fatalf("with all lists: %+v", c)
	}
	broken.Store(true)
	if c := visit(); c == nil || len(c.Tools) != 1 || len(c.Prompts) != 1 || c.Partial {
		t.Errorf("with a list that was there before: %+v", c)
	}
}
