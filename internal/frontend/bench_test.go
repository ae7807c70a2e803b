package frontend

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// constant answers every call with the same result.
type constantHandler struct{ result call.Result }

func (c constantHandler) Handle(context.Context, *call.Call) (call.Result, error) {
	return c.result, nil
}

// discard is a minimal ResponseWriter.
type discard struct {
	header http.Header
	status int
	body   []byte
}

func (w *discard) Header() http.Header { return w.header }
func (w *discard) WriteHeader(s int)   { w.status, w.body = s, w.body[:0] }
func (w *discard) Write(b []byte) (int, error) {
	w.body = append(w.body, b...)
	return len(b), nil
}

// reader is a body that can be read repeatedly without allocating.
type reader struct{ bytes.Reader }

func (*reader) Close() error { return nil }

// oneCall returns a function that makes the same tools/call, with a result of 1 KiB, and
// the writer that gets the response.
func oneCall(tb testing.TB, era wire.Era) (func(), *discard) {
	result := wire.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1000) + `"}]}`)
	return oneRequest(tb, era, wire.MethodToolsCall, call.Result{Raw: result})
}

// oneRequest returns a function that makes the same request, and the writer that gets the
// response.
func oneRequest(tb testing.TB, era wire.Era, method string, result call.Result) (func(), *discard) {
	return sameRequest{era: era, method: method, result: result}.repeat(tb)
}

// sameRequest is a request that is made again and again.
type sameRequest struct {
	era    wire.Era
	method string
	text   string // in the arguments, "" for a short one
	accept string // "" for both types
	result call.Result
	sender *call.Principal // nil for the anonymous one
	keys   [][]byte        // seal the id of the session
}

// repeat returns a function that makes the request, and the writer that gets the response.
func (q sameRequest) repeat(tb testing.TB) (func(), *discard) {
	era, method := q.era, q.method
	s := New(Options{Handler: constantHandler{q.result}, Info: wire.Raw(`{"name":"gateway","version":"1"}`), Sessions: Sessions{Keys: q.keys},
		Authenticate: func(*http.Request) (*call.Principal, error) { return cmp.Or(q.sender, call.Anonymous), nil }})
	w := &discard{header: make(http.Header)}
	params := `"name":"echo__say","arguments":{"text":"` + cmp.Or(q.text, "hello") + `","n":1}`
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:34567"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if era == wire.EraLegacy {
		r.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`))
		s.ServeHTTP(w, r)
		r.Header[wire.HeaderSession] = w.header[wire.HeaderSession]
		r.Header.Set(wire.HeaderVersion, "2025-11-25")
	} else {
		r.Header.Set(wire.HeaderVersion, "2026-07-28")
		r.Header.Set(wire.HeaderMethod, method)
		r.Header.Set(wire.HeaderName, "echo__say")
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"host","version":"1"}}`
	}
	r.Header.Set("Accept", cmp.Or(q.accept, "application/json, text/event-stream"))
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)
	again := &reader{}
	return func() {
		again.Reset(body)
		r.Body = again
		r.ContentLength = int64(len(body))
		clear(w.header)
		w.status = 0
		s.ServeHTTP(w, r)
	}, w
}

func BenchmarkCall(b *testing.B) {
	for _, era := range []wire.Era{wire.EraLegacy, wire.EraModern} {
		b.Run(era.String(), func(b *testing.B) {
			run, _ := oneCall(b, era)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
