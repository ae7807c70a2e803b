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

// changes waits until so many tables were told of that differ from the one before.
func (c *talk) changes(n float64) {
	c.t.Helper()
	polltest.Until(c.t, "the changes are told", func() bool { return testutil.ToFloat64(c.g.metrics.swaps.WithLabelValues("changed")) >= n })
}

// A client that was there before the upstreams hears of no changes while they
// start: its first list waits for them.
func TestNoNewsOfTheStart(t *testing.T) {
	gate := make(chan struct{})
	c, end := talkTo(t, "upstreams: {late: {url: "+lateServer(t, gate)+", era: legacy}}")
	close(gate)
	c.changes(1)
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

// startHidden starts a gateway of which the client may see one upstream, and not the
// other, which starts when the gate opens. The client has got its first list.
func startHidden(t *testing.T) (c *talk, server *mcp.Server, open, end func()) {
	gate := make(chan struct{})
	server = mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	give(server, "one")
	shop := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		shop.CloseClientConnections()
		shop.Close()
	})
	c, end = talkTo(t, `
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
	if c.g.isStarted() {
		t.Error("the hidden upstream has ended its first attempt")
	}
	return c, server, func() { close(gate) }, end
}

// Whoever need not wait for their first list hears of nothing that it had, and of nothing
// of an upstream that is hidden from them.
func TestNoNewsOfWhatWasListed(t *testing.T) {
	c, _, open, end := startHidden(t)
	c.changes(1) // that of the list
	open()
	c.changes(2) // that of the hidden upstream
	<-c.g.started
	c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := c.until(answerTo("2")); len(got) != 1 {
		t.Errorf("the client heard %q", got)
	}
	end()
}

// They hear of what changes in that list, while the hidden upstream is starting.
func TestNewsWhileOthersStart(t *testing.T) {
	c, server, open, end := startHidden(t)
	told := false
	polltest.Until(t, "it is told of, and the list has it", func() bool {
		give(server, "two") // again, as the gateway may not hear the server yet
		c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		got := c.until(answerTo("2"))
		told = told || strings.Contains(got[0], wire.NoteToolsChanged)
		return told && strings.Contains(got[len(got)-1], `"shop__two"`)
	})
	if c.g.isStarted() {
		t.Error("the hidden upstream has ended its first attempt")
	}
	open()
	end()
}
