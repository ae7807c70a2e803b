package upstream

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// gzipping compresses every response of a handler, as the middleware of many servers does,
// if the request accepts gzip.
func gzipping(h http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			http.Error(w, "Accept-Encoding: gzip is missing", http.StatusNotAcceptable)
			return
		}
		z := &gzipResponse{ResponseWriter: w}
		defer z.end()
		h.ServeHTTP(z, r)
	}
}

type gzipResponse struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (g *gzipResponse) begin() {
	if g.z == nil {
		g.Header().Set("Content-Encoding", "gzip")
		g.z = gzip.NewWriter(g.ResponseWriter)
	}
}

func (g *gzipResponse) WriteHeader(status int) {
	if status != http.StatusAccepted && status != http.StatusNoContent {
		g.begin()
	}
	g.ResponseWriter.WriteHeader(status)
}

func (g *gzipResponse) Write(b []byte) (int, error) {
	g.begin()
	return g.z.Write(b)
}

func (g *gzipResponse) Flush() {
	g.begin()
	g.z.Flush()
	g.ResponseWriter.(http.Flusher).Flush()
}

func (g *gzipResponse) end() {
	if g.z != nil {
		g.z.Close()
	}
}

// A server may compress everything: the handshake, results, errors, and streams, whose events
// arrive at once.
func TestServerCompresses(t *testing.T) {
	for name, tc := range map[string]struct {
		modern bool
		change func(*Options)
	}{"legacy": {false, legacyEra}, "modern": {true, func(o *Options) { o.Era = wire.EraModern }}, "SSE": {false, overSSE}} {
		t.Run(name, func(t *testing.T) {
			s := &script{modern: tc.modern, stateful: name == "legacy", on: map[string]on{}}
			notes := make(chan struct{})
			s.on[wire.MethodPromptsGet] = refuse(http.StatusBadRequest, `{"code":-32602,"message":"no such prompt"}`)
			if name != "SSE" {
				s.on[wire.MethodToolsCall] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
					send := streaming(w)
					for i := range 3 {
						send(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"progressToken":%s}}`, i, wire.ValueOf(m.Params).Get("_meta", "progressToken").Raw())
						<-notes
					}
					send(`data: {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}],"resultType":"complete"}}`, m.ID)
				}
			}
			var h http.Handler = s
			if name == "SSE" {
				h = &sseScript{script: s}
			}
			c := converse(t, gzipping(h), tc.change)
			back := &notified{each: func() { notes <- struct{}{} }}
			call := tool("a", `{"name":"x","_meta":{"progressToken":7}}`, back)
			if got := c.do(t, call); !strings.Contains(got, `"text":"done"`) {
				t.Errorf("result %s", got)
			}
			if name == "SSE" {
				return
			}
			call = tool("a", `{"name":"x"}`, nil)
			call.Method = wire.MethodPromptsGet
			upstreamtest.Equal(t, "refusal", c.do(t, call), `error: {"code":-32602,"message":"no such prompt"}`)
		})
	}
}

// notified is a back channel that has a function called with every notification.
type notified struct {
	client
	each func()
}

func (n *notified) Notify(string, wire.Raw) { n.each() }

func gzipped(body string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, body)
	z.Close()
	return b.String()
}

// encoded is an answer with a Content-Encoding.
func encoded(coding, mediaType string, body func(m wire.Message) string) on {
	return func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Content-Type", mediaType)
		io.WriteString(w, body(m))
	}
}

// The next call works in the same session after any compressed answer.
func TestCompressedAnswers(t *testing.T) {
	answer := func(result string) func(m wire.Message) string {
		return func(m wire.Message) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result) }
	}
	zipped := func(body func(m wire.Message) string) func(m wire.Message) string {
		return func(m wire.Message) string { return gzipped(body(m)) }
	}
	text := func(s string) func(wire.Message) string { return func(wire.Message) string { return s } }
	bomb := gzipped(strings.Repeat(" ", 8<<20)) // 8 KiB
	const (
		tooLarge  = "call error: the server's answer is larger than 1048576 bytes"
		tooDense  = "call error: the server's answer cannot be decompressed: it becomes more than 256 times larger"
		otherCode = `call error: the server's answer has the content encoding %q, and the gateway takes gzip only`
	)
	for name, tc := range map[string]struct {
		on   on
		want string
	}{
		"gzip":                {encoded("gzip", httpconn.TypeJSON, zipped(answer(`{"a":1}`))), `{"a":1}`},
		"x-gzip, in capitals": {encoded("X-GZIP", httpconn.TypeJSON, zipped(answer(`{"a":1}`))), `{"a":1}`},
		"identity":            {encoded("identity", httpconn.TypeJSON, answer(`{"a":1}`)), `{"a":1}`},
		"two members": {encoded("gzip", httpconn.TypeJSON, func(m wire.Message) string {
			whole := answer(`{"a":1}`)(m)
			return gzipped(whole[:10]) + gzipped(whole[10:])
		}), `{"a":1}`},
		"on a stream":          {encoded("gzip", httpconn.TypeStream, func(m wire.Message) string { return gzipped("data: " + answer(`{"a":1}`)(m) + "\n\n") }), `{"a":1}`},
		"br":                   {encoded("br", httpconn.TypeJSON, answer(`{}`)), fmt.Sprintf(otherCode, "br")},
		"twice":                {encoded("gzip, gzip", httpconn.TypeJSON, answer(`{}`)), fmt.Sprintf(otherCode, "gzip, gzip")},
		"zstd, on a stream":    {encoded("zstd", httpconn.TypeStream, answer(`{}`)), fmt.Sprintf(otherCode, "zstd")},
		"no gzip":              {encoded("gzip", httpconn.TypeJSON, answer(`{}`)), "call error: the server's answer cannot be decompressed: gzip: invalid header"},
		"no gzip, on a stream": {encoded("gzip", httpconn.TypeStream, text("data: {}\n\n")), "call error: the server's answer cannot be decompressed: gzip: invalid header"},
		"bad checksum": {encoded("gzip", httpconn.TypeJSON, func(m wire.Message) string {
			b := []byte(gzipped(answer(`{}`)(m)))
			b[len(b)-5] ^= 1
			return string(b)
		}), "call error: the server's answer cannot be decompressed: gzip: invalid checksum"},
		"cut off":                             {encoded("gzip", httpconn.TypeJSON, func(m wire.Message) string { z := gzipped(answer(`{}`)(m)); return z[:len(z)-9] }), "call error: the connection to the server broke before it answered"},
		"empty":                               {encoded("gzip", httpconn.TypeJSON, text("")), "call error: the server's answer is no valid JSON-RPC message"},
		"bomb":                                {encoded("gzip", httpconn.TypeJSON, text(bomb)), tooLarge},
		"bomb, as one event":                  {encoded("gzip", httpconn.TypeStream, text(gzipped("data: "+strings.Repeat("x", 8<<20)))), tooLarge},
		"bomb, of comments":                   {encoded("gzip", httpconn.TypeStream, text(gzipped(strings.Repeat(":\n", 4<<20)))), tooDense},
		"too large before it is decompressed": {encoded("gzip", httpconn.TypeJSON, text(strings.Repeat("x", 2<<20))), "call error: the server's answer cannot be decompressed: gzip: invalid header"},
		"a refusal in br": {func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Content-Type", httpconn.TypeJSON)
			w.WriteHeader(http.StatusInternalServerError)
		}, "call error: the server answered HTTP 500 with content type application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, on: map[string]on{wire.MethodToolsCall: tc.on}}
			c := converse(t, s, legacyEra)
			for range 2 { // memory is used again
				upstreamtest.Equal(t, "outcome", c.do(t, tool("a", `{"name":"x"}`, nil)), tc.want)
			}
			next := tool("a", `{"name":"x"}`, nil)
			next.Method = wire.MethodPromptsGet
			upstreamtest.Equal(t, "next call", c.do(t, next), doneResult)
			upstreamtest.Equal(t, "sessions", s.sessions, 1)
		})
	}
}
