package frontend

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// brokenWriter is a client that goes while the response is written.
type brokenWriter struct {
	*httptest.ResponseRecorder
	after int // bytes
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.after -= len(b); w.after < 0 {
		return 0, errors.New("the client is gone")
	}
	return w.ResponseRecorder.Write(b)
}

// The memory of a result is released once, when the client has all of it. If a write fails
// it is not, because HTTP/2 may still be writing from it.
func TestResultIsReleased(t *testing.T) {
	text := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 400<<10) + `"}]}`
	for _, tt := range []struct {
		name     string
		accept   string
		body     string
		version  string
		after    int
		released bool
	}{
		{"legacy", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`, "2025-11-25", 1 << 20, true},
		{"legacy, as events", "text/event-stream", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`, "2025-11-25", 1 << 20, true},
		{"gone at once", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`, "2025-11-25", 0, false},
		{"gone in the middle", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`, "2025-11-25", 300 << 10, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			result := &wire.Buffer{B: []byte(text)}
			s := New(Options{Handler: constantHandler{call.Result{Raw: result.B, Buffer: result}}, Info: wire.Raw(`{"name":"gateway","version":"1"}`)})
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", tt.accept)
			r.Header.Set(wire.HeaderVersion, tt.version)
			w := &brokenWriter{httptest.NewRecorder(), tt.after}
			s.ServeHTTP(w, r)
			if complete := bytes.Contains(w.Body.Bytes(), []byte(text)); complete != tt.released {
				t.Errorf("the client has the whole result: %v, want %v; status %d: %.200s", complete, tt.released, w.Code, w.Body)
			}
			if got := isReleased(result); got != tt.released {
				t.Errorf("the result is released: %v, want %v", got, tt.released)
			}
		})
	}
}

// isReleased reports whether a buffer was released, and releases it.
func isReleased(b *wire.Buffer) (released bool) {
	defer func() { released = recover() != nil }()
	b.Release()
	return false
}
