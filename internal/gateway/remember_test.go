package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/statedir"
)

// A gateway in the process of a verb remembers what upstreams offer, also if one of their
// lists fails. What is known of a list from an earlier run stays.
func TestRememberedInProcess(t *testing.T) {
	var broken, silent atomic.Pointer[http.HandlerFunc]
	refuses := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	url, state := listServer{&silent, &broken, "Be kind."}.start(t), t.TempDir()
	yaml := fmt.Sprintf("upstreams: {half: {url: %q}}", url)
	visit := func() *statedir.Catalog {
		g := inProcess(t, yaml, state, nil)
		if err := g.RunInProcess(t.Context(), func(ctx context.Context, p *InProcess) error { return p.WaitStarted(ctx) }); err != nil {
			t.Fatal(err)
		}
		return g.state.Catalog(g.generation.Load().entries[0].conn.key)
	}

	broken.Store(&refuses)
	silent.Store(&refuses)
	if c := visit(); c != nil {
		t.Errorf("without any list: %+v", c)
	}
	silent.Store(nil)
	if c := visit(); c == nil || len(c.Tools) != 1 || len(c.Prompts) != 0 || !c.Partial || c.Instructions != "Be kind." || c.Capabilities == nil {
		t.Fatalf("with a list that fails: %+v", c)
	}
	broken.Store(nil)
	if c := visit(); c == nil || len(c.Tools) != 1 || len(c.Prompts) != 1 || c.Partial {
		t.Fatalf("with all lists: %+v", c)
	}
	broken.Store(&refuses)
	if c := visit(); c == nil || len(c.Tools) != 1 || len(c.Prompts) != 1 || c.Partial {
		t.Errorf("with a list that was there before: %+v", c)
	}
}
