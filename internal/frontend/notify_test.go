package frontend

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// Of two clients the one that is meant is told, by the stream that it has.
func TestNotifyReachesOneClient(t *testing.T) {
	park(t, askOnce, func(l *lot) {
		ctx, cancel := context.WithCancel(l.t.Context())
		defer cancel()
		begin := func() (key string, stream *reply) {
			send := func(method, session, body string) *reply {
				req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1/mcp", io.NopCloser(strings.NewReader(body)))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				if session != "" {
					req.Header.Set(wire.HeaderSession, session)
				}
				r := &reply{l: l, header: make(http.Header)}
				go func() {
					l.s.ServeHTTP(r, req)
					r.mu.Lock()
					defer r.mu.Unlock()
					r.done = true
				}()
				r.text() // waits until nothing moves
				return r
			}
			const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
			key = send(http.MethodPost, "", initialize).header.Get(wire.HeaderSession)
			return key, send(http.MethodGet, key, "")
		}
		ann, annStream := begin()
		_, bobStream := begin()
		l.s.Notify(ann, wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"x"}`))
		l.s.Notify("nobody", wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"y"}`))
		cancel()
		if got := annStream.text(); !strings.Contains(got, `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"x"}}`) || strings.Contains(got, `"y"`) {
			t.Errorf("the client was told %q", got)
		}
		if got := bobStream.text(); strings.Contains(got, "elicitation") {
			t.Errorf("another client was told %q", got)
		}
	})
}
