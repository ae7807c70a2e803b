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
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"mcpgateway/internal/config"
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

// talk is a client over stdio that has said hello.
type talk struct {
	t     *testing.T
	g     *Gateway
	in    io.WriteCloser
	lines *bufio.Scanner
}

// talkTo runs a gateway and returns its client. end has it read to the end.
func talkTo(t *testing.T, yaml string) (c *talk, end func()) {
	t.Helper()
	cfg, err := config.Parse("gateway.yaml", []byte(yaml), os.LookupEnv)
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
	c = &talk{t, g, client, bufio.NewScanner(answers)}
	c.say(initialize)
	c.until(answerTo("0"))
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, func() {
		client.Close()
		for c.lines.Scan() {
		}
		if err := <-done; err != nil {
			t.Errorf("RunStdio: %v", err)
		}
	}
}

func (c *talk) say(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func answerTo(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,` }

// until returns what comes up to a line that begins like this. It is an error when
// none comes in time.
func (c *talk) until(begin string) (heard []string) {
	c.t.Helper()
	late := time.AfterFunc(patience, func() { c.in.Close() })
	defer late.Stop()
	for c.lines.Scan() {
		heard = append(heard, c.lines.Text())
		if strings.HasPrefix(c.lines.Text(), begin) {
			return heard
		}
	}
	c.t.Fatalf("the output ended (%v) after %q", c.lines.Err(), heard)
	return nil
}

// A client that was there before the upstreams hears of no changes while they
// start: its first list waits for them.
func TestNoNewsOfTheStart(t *testing.T) {
	gate := make(chan struct{})
	c, end := talkTo(t, "upstreams: {late: {url: "+lateServer(t, gate)+", era: legacy}}")
	close(gate)
	for deadline := time.Now().Add(patience); testutil.ToFloat64(c.g.metrics.swaps.WithLabelValues("changed")) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the tools of the upstream did not come")
		}
		time.Sleep(time.Millisecond)
	}
	c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := c.until(answerTo("1")); len(got) != 1 {
		t.Errorf("before its first list the client heard %q", got)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := c.until(answerTo("2")); len(got) != 1 || !strings.Contains(got[0], `"late__t"`) {
		t.Errorf("the first list came as %q", got)
	}
	end()
}

// Whoever may see nothing of an upstream that starts gets a list at once, and from then
// on hears of what changes in it, but nothing of the other one.
func TestNewsForWhoNeedNotWait(t *testing.T) {
	gate := make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	give(server, "one")
	shop := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		shop.CloseClientConnections()
		shop.Close()
	})
	c, end := talkTo(t, `
startup_wait: 10m
upstreams:
  late: {url: `+lateServer(t, gate)+`, era: legacy}
  shop: {url: `+shop.URL+`, era: legacy}
policy:
  default: allow
  rules: [{name: hidden, effect: deny, what: {upstreams: [late]}}]
`)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if got := c.until(answerTo("1")); len(got) != 1 || !strings.Contains(got[0], `"shop__one"`) || strings.Contains(got[0], "late") {
		t.Errorf("the first list came as %q", got)
	}
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`
	give(server, "two")
	if got := c.until(changed); len(got) != 1 {
		t.Errorf("the client heard %q", got)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := c.until(answerTo("2")); !strings.Contains(got[len(got)-1], `"shop__two"`) {
		t.Errorf("the list after the change came as %q", got)
	}
	if c.g.isSettled() {
		t.Error("the hidden upstream has ended its first attempt")
	}
	close(gate)
	<-c.g.settled
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if got := c.until(answerTo("3")); len(got) != 1 || strings.Contains(got[0], "late") {
		t.Errorf("after the other has started the client heard %q", got)
	}
	end()
}
