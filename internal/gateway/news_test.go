package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// lateServer is a legacy server whose list of tools comes when the gate opens.
func lateServer(t *testing.T, gate <-chan struct{}) string {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		m, err := wire.Parse(body, wire.Limits{})
		if err != nil || !m.IsRequest() {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"late","version":"1"}}`
		if m.Method == wire.MethodToolsList {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
			result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// A client that was there before the upstreams hears of no changes while they
// start: its first list waits for them.
func TestNoNewsOfTheStart(t *testing.T) {
	gate := make(chan struct{})
	cfg, err := config.Parse("gateway.yaml", []byte("upstreams: {late: {url: "+lateServer(t, gate)+", era: legacy}}"), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.StateDir = t.TempDir()
	g, err := New(Options{Config: cfg, Version: "test", Logger: zap.NewNop(), Stdio: true})
	if err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- g.RunStdio(context.Background(), in, out)
		out.Close()
	}()
	lines := bufio.NewScanner(answers)
	say := func(text string) {
		if _, err := io.WriteString(client, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	// until returns what comes up to the answer to a request.
	until := func(id string) (heard []string) {
		for lines.Scan() {
			heard = append(heard, lines.Text())
			if strings.HasPrefix(lines.Text(), `{"jsonrpc":"2.0","id":`+id+`,`) {
				return heard
			}
		}
		t.Fatalf("the output ended (%v) after %q", lines.Err(), heard)
		return nil
	}
	say(initialize)
	until("0")
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	close(gate)
	polltest.Until(t, "the tools of the upstream are there", func() bool { return testutil.ToFloat64(g.metrics.swaps.WithLabelValues("changed")) > 0 })
	say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := until("1"); len(got) != 1 {
		t.Errorf("before its first list the client heard %q", got)
	}
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := until("2"); len(got) != 1 || !strings.Contains(got[0], `"late__t"`) {
		t.Errorf("the first list came as %q", got)
	}
	client.Close()
	for lines.Scan() {
	}
	if err := <-done; err != nil {
		t.Errorf("RunStdio: %v", err)
	}
}
