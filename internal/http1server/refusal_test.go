package http1server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A client of HTTP/2 whose header is too large gets an answer too.
func TestLargeHeadersOverHTTP2(t *testing.T) {
	next := quietServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	next.MaxHeaderBytes = 64 << 10
	s := New(next)
	s.OnLargeHeader = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Id", "id") }
	at, newClient := serveTLS(t, s, next)
	client := newClient(true)
	defer client.CloseIdleConnections()
	for size, status := range map[int]int{1000: 200, 60_000: 200, 70_000: 431, 120_000: 431} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/mcp", nil)
		r.Header.Set("X-A", strings.Repeat("~", size)) // which HPACK does not make smaller
		resp, err := client.Do(r)
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.Proto != "HTTP/2.0" || resp.StatusCode != status || (resp.Header.Get("X-Id") == "id") != (status != 200) {
			t.Errorf("%d bytes: %s %s %v %q", size, resp.Proto, resp.Status, resp.Header, body)
		}
	}
}
