//go:build !race

// The race detector changes the size of what is allocated.

package frontend

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"mcpgateway/internal/http1server"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/wire"
)

// idleMemory bounds what an event stream on which nothing happens takes, in bytes of heap and
// stack, with the connection and the session of its client. Raise a number only if the cost
// is a decision.
var idleMemory = map[wire.Era]int64{wire.EraLegacy: 11 << 10, wire.EraModern: 9 << 10}

// Thousands of streams are open at once. Each has one goroutine, and keeps nothing of its request.
func TestMemoryOfIdleStreams(t *testing.T) {
	const streams = 300
	for era, most := range idleMemory {
		t.Run(era.String(), func(t *testing.T) {
			s := New(Options{Handler: newScriptHandler(), Info: wire.Raw(`{}`), LoopbackListener: true})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := http1server.New(&http.Server{Handler: s})
			served := make(chan error, 1)
			go func() { served <- srv.Serve(l) }()
			t.Cleanup(func() {
				srv.Close()
				<-served
			})
			c := &idleClient{t: t, address: l.Addr().String(), answer: make([]byte, 4096)}
			c.open(era)
			before, goroutines := memoryInUse(), runtime.NumGoroutine()
			for range streams {
				c.open(era)
			}
			polltest.Until(t, "each stream has one goroutine", func() bool { return runtime.NumGoroutine()-goroutines <= streams })
			if got := (memoryInUse() - before) / streams; got > most {
				t.Errorf("a stream takes %d bytes, at most %d are allowed", got, most)
			}
		})
	}
}

// idleClient opens event streams.
type idleClient struct {
	t       *testing.T
	address string
	answer  []byte
}

// open opens a stream on a connection of its own.
func (c *idleClient) open(era wire.Era) {
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	const head = " /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	if era == wire.EraModern {
		body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		got := c.exchange(conn, fmt.Sprintf("POST%sMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body))
		for !strings.Contains(got, wire.NoteAcknowledged) {
			got += c.exchange(conn, "")
		}
		return
	}
	body := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"idle","version":"1"}}}`
	_, rest, _ := strings.Cut(c.exchange(conn, fmt.Sprintf("POST%sContent-Length: %d\r\n\r\n%s", head, len(body), body)), wire.HeaderSession+": ")
	id, _, _ := strings.Cut(rest, "\r\n")
	got := c.exchange(conn, fmt.Sprintf("GET%s%s: %s\r\n\r\n", head, wire.HeaderSession, id))
	for !strings.Contains(got, "\nid: ") {
		got += c.exchange(conn, "")
	}
}

// exchange sends bytes and returns what comes next.
func (c *idleClient) exchange(conn net.Conn, send string) string {
	if _, err := io.WriteString(conn, send); err != nil {
		c.t.Fatal(err)
	}
	n, err := conn.Read(c.answer)
	if err != nil || strings.HasPrefix(string(c.answer[:n]), "HTTP/1.1 4") {
		c.t.Fatalf("%s %v", c.answer[:n], err)
	}
	return string(c.answer[:n])
}

// memoryInUse returns the bytes of all reachable objects and of stacks.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC() // pools keep their memory for one collection
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}
