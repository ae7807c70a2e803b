package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// benchServer answers tools/call with 1 KiB and does little else.
type benchServer struct {
	modern, stream bool
}

var benchText = strings.Repeat("x", 1024)

func (s *benchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id := wire.ValueOf(body).Get("id").Raw()
	switch method := wire.ValueOf(body).Get("method").Str(); {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case method == wire.MethodToolsCall && s.stream:
		w.Header().Set("Content-Type", httpconn.TypeStream)
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}}\n\n", id, benchText)
	case method == wire.MethodToolsCall:
		answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, benchText)
		h := w.Header()
		h["Content-Type"] = []string{httpconn.TypeJSON}
		h["Content-Length"] = []string{strconv.Itoa(len(answer))}
		w.Write(answer)
	case id == nil:
		w.WriteHeader(http.StatusAccepted)
	case s.modern:
		answerJSON(w, wire.Message{ID: wire.IDOf(string(id))}, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
	default:
		w.Header().Set(wire.HeaderSession, "s")
		answerJSON(w, wire.Message{ID: wire.IDOf(string(id))}, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
	}
}

// BenchmarkHTTPCall measures a tools/call, server included. "nethttp" is
// http.Transport alone with the same bytes, for comparison.
func BenchmarkHTTPCall(b *testing.B) {
	for _, bc := range []struct {
		name   string
		server benchServer
		era    wire.Era
	}{
		{"legacy", benchServer{}, wire.EraLegacy},
		{"legacy-stream", benchServer{stream: true}, wire.EraLegacy},
		{"modern", benchServer{modern: true}, wire.EraModern},
	} {
		b.Run(bc.name, func(b *testing.B) {
			h := httptest.NewServer(&bc.server)
			defer h.Close()
			u, _ := url.Parse(h.URL)
			o := Options{Name: "bench", Server: Server{HTTP: &httpconn.Config{URL: u}, Era: bc.era}}
			c, _, err := dialerOf(b, o.withDefaults(), nil).Dial(b.Context(), make(recordedNotifications, 10))
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			cl := tool("a", `{"name":"echo","arguments":{"text":"hello"}}`, nil)
			if bc.era == wire.EraModern {
				cl = modernCall(wire.MethodToolsCall, `{"name":"echo","arguments":{"text":"hello"}}`)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Call(ctx, cl); err != nil {
						b.Error(err)
						return
					}
				}
			})
			cancel()
			<-ended
		})
	}
	b.Run("nethttp", func(b *testing.B) {
		h := httptest.NewServer(&benchServer{})
		defer h.Close()
		tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
		defer tr.CloseIdleConnections()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r, _ := http.NewRequest(http.MethodPost, h.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`))
				resp, err := tr.RoundTrip(r)
				if err != nil {
					b.Error(err)
					return
				}
				io.ReadAll(resp.Body)
				resp.Body.Close()
			}
		})
	})
}
