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
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// lateServer is a legacy server that answers tools/list when the gate opens.
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

// stdioClient is an initialized client over stdio.
type stdioClient struct {
	t     *testing.T
	g     *Gateway
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startStdio runs a gateway and returns its client. end closes the input and reads the
// rest of the output.
func startStdio(t *testing.T, yaml string) (c *stdioClient, end func()) {
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
	c = &stdioClient{t, g, client, bufio.NewScanner(answers)}
	c.send(initialize)
	c.readUntil(answerTo("0"))
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, func() {
		client.Close()
		for c.lines.Scan() {
		}
		if err := <-done; err != nil {
			t.Errorf("RunStdio: %v", err)
		}
	}
}

func (c *stdioClient) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func answerTo(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,` }

// readUntil returns the lines up to the first one that starts with begin. It fails the test if
// no such line arrives in time.
func (c *stdioClient) readUntil(begin string) (messages []string) {
	c.t.Helper()
	late := time.AfterFunc(testTimeout, func() { c.in.Close() })
	defer late.Stop()
	for c.lines.Scan() {
		messages = append(messages, c.lines.Text())
		if strings.HasPrefix(c.lines.Text(), begin) {
			return messages
		}
	}
	c.t.Fatalf("the output ended (%v) after %q", c.lines.Err(), messages)
	return nil
}

// waitSwaps waits until n new tables differed from their predecessors.
func (c *stdioClient) waitSwaps(n float64) {
	c.t.Helper()
	polltest.Until(c.t, "the changes are announced", func() bool { return testutil.ToFloat64(c.g.metrics.swaps.WithLabelValues("changed")) >= n })
}

// A client that connects before the upstreams have started gets no list changes while they
// start: its first list waits for them.
func TestNoListChangesDuringStart(t *testing.T) {
	gate := make(chan struct{})
	c, end := startStdio(t, "upstreams: {late: {url: "+lateServer(t, gate)+", era: legacy}}")
	close(gate)
	c.waitSwaps(1)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if got := c.readUntil(answerTo("1")); len(got) != 1 {
		t.Errorf("before its first list the client received %q", got)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := c.readUntil(answerTo("2")); len(got) != 1 || !strings.Contains(got[0], `"late__t"`) {
		t.Errorf("the first list is %q", got)
	}
	end()
}

// startHidden starts a gateway with two upstreams. The client may see only the first. The
// second starts when the gate opens. The client has its first list.
func startHidden(t *testing.T) (c *stdioClient, server *mcp.Server, open, end func()) {
	gate := make(chan struct{})
	server = mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	give(server, "one")
	shop := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		shop.CloseClientConnections()
		shop.Close()
	})
	c, end = startStdio(t, `
startup_wait: 10m
upstreams:
  late: {url: `+lateServer(t, gate)+`, era: legacy}
  shop: {url: `+shop.URL+`, era: legacy}
policy:
  default: allow
  rules: [{name: hidden, effect: deny, what: {upstreams: [late]}}]
`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if got := c.readUntil(answerTo("1")); len(got) != 1 || !strings.Contains(got[0], `"shop__one"`) || strings.Contains(got[0], "late") {
		t.Errorf("the first list is %q", got)
	}
	if c.g.isStarted() {
		t.Error("the hidden upstream has ended its first attempt")
	}
	return c, server, func() { close(gate) }, end
}

// A client whose first list does not wait gets no list changes for what that list contained,
// and none for an upstream that is hidden from it.
func TestNoListChangesOfHiddenUpstreams(t *testing.T) {
	c, _, open, end := startHidden(t)
	c.waitSwaps(1) // the table with the list
	open()
	c.waitSwaps(2) // the table with the hidden upstream
	<-c.g.started
	c.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := c.readUntil(answerTo("2")); len(got) != 1 {
		t.Errorf("the client received %q", got)
	}
	end()
}

// A client gets changes of that list while the hidden upstream is starting.
func TestListChangesWhileOthersStart(t *testing.T) {
	c, server, open, end := startHidden(t)
	announced := false
	polltest.Until(t, "it is announced, and the list has it", func() bool {
		give(server, "two") // repeated, since the gateway may not listen yet
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		got := c.readUntil(answerTo("2"))
		announced = announced || strings.Contains(got[0], wire.NoteToolsChanged)
		return announced && strings.Contains(got[len(got)-1], `"shop__two"`)
	})
	if c.g.isStarted() {
		t.Error("the hidden upstream has ended its first attempt")
	}
	open()
	end()
}
