package frontend

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gzipped"
	"mcpgateway/internal/wire"
)

// listPage returns a page of a list of tools, as the catalog keeps it, with the members of
// modern results at its beginning.
func listPage(tools int) call.Result {
	raw := wire.Raw(`{"resultType":"complete","ttlMs":1000,"cacheScope":"public",`)
	page := &call.Page{Start: len(raw), Text: new(gzipped.Text)}
	raw = append(raw, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"gateway","version":"1"}},"tools":[`...)
	for i := range tools {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = fmt.Appendf(raw, `{"name":"u%d__tool_%d","description":%q,"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`,
			i%10, i, strings.Repeat("what the tool does, at some length; ", 8))
	}
	return call.Result{Raw: append(raw, "]}"...), Page: page}
}

// rawClient is a client that costs little. It reads responses that have a Content-Length.
type rawClient struct {
	conn net.Conn
	in   *bufio.Reader
	sink []byte
}

func (c *rawClient) exchange(request []byte) (int64, error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	var length int64
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if n := len("Content-Length: "); len(line) > n && string(line[:n]) == "Content-Length: " {
			length = 0
			for _, d := range line[n : len(line)-2] {
				length = 10*length + int64(d-'0')
			}
		}
		if len(line) == 2 {
			break
		}
	}
	for left := length; left > 0; {
		n, err := c.in.Read(c.sink[:min(int64(len(c.sink)), left)])
		if left -= int64(n); err != nil {
			return 0, err
		}
	}
	return length, nil
}

// BenchmarkPage compares a page of 1,000 tools with http.FileServer, which sends a file with
// the same bytes, and with a handler that has the compressed bytes ready.
func BenchmarkPage(b *testing.B) {
	page := listPage(1000)
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mcp"), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":%s}`, page.Raw), 0o600); err != nil {
		b.Fatal(err)
	}
	gateway := New(Options{Handler: constantHandler{page}, Info: wire.Raw(`{"name":"gateway","version":"1"}`), Settings: Settings{CompressLists: true}})
	compressed, _ := gzipped.Compress(nil, page.Raw)
	ready := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(compressed)))
		w.Write(compressed)
	})
	for _, bb := range []struct {
		name, headers string
		handler       http.Handler
	}{
		{"gateway", "", gateway},
		{"file", "", http.FileServer(http.Dir(dir))},
		{"gateway/gzip", "Accept-Encoding: gzip\r\n", gateway},
		{"ready/gzip", "Accept-Encoding: gzip\r\n", ready},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := httptest.NewServer(bb.handler)
			defer s.Close()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			c := &rawClient{conn, bufio.NewReader(conn), make([]byte, 64<<10)}
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
			request := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%s"+
				"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: %d\r\n\r\n%s", s.Listener.Addr(), bb.headers, len(body), body)
			b.ReportAllocs()
			before := cpuTime()
			var size int64
			for b.Loop() {
				if size, err = c.exchange(request); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(size), "body-B")
		})
	}
}
