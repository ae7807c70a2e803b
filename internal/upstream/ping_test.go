package upstream

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/wire"
)

// A ping succeeds if the server answers as an MCP server does, with a result or an error. The
// circuit breaker depends on the difference.
func TestPingOverHTTP(t *testing.T) {
	refuse := func(_ http.ResponseWriter, m wire.Message) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no ping here"}}`, m.ID)
	}
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, m wire.Message) (body string)
		works  bool
	}{
		"an error": {refuse, true},
		"an error with HTTP 500": {func(w http.ResponseWriter, m wire.Message) string {
			w.WriteHeader(http.StatusInternalServerError)
			return refuse(w, m)
		}, true},
		"no JSON": {func(http.ResponseWriter, wire.Message) string { return "}{" }, false},
		"no response": {func(_ http.ResponseWriter, m wire.Message) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s}`, m.ID)
		}, false},
		"HTTP 500": {func(w http.ResponseWriter, _ wire.Message) string {
			w.WriteHeader(http.StatusInternalServerError)
			return ""
		}, false},
		"a web page": {func(w http.ResponseWriter, _ wire.Message) string {
			w.Header().Set("Content-Type", "text/html")
			return "<html>"
		}, false},
	} {
		for _, modern := range []bool{false, true} {
			var broken atomic.Bool
			method := wire.MethodPing
			if modern {
				method = wire.MethodDiscover
			}
			s := &script{modern: modern}
			normal := on(func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				answerJSON(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`)
			})
			s.on = map[string]on{method: func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				if !broken.Load() {
					normal(w, r, m)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, tc.answer(w, m))
			}}
			c := converse(t, s, func(o *Options) {
				o.Transport = transport.Streamable
				if o.Era = wire.EraLegacy; modern {
					o.Era = wire.EraModern
				}
			})
			if err := c.Ping(t.Context()); err != nil {
				t.Fatalf("modern %v: the ping fails: %v", modern, err)
			}
			broken.Store(true)
			if err := c.Ping(t.Context()); (err == nil) != tc.works {
				t.Errorf("modern %v, %s: the error of the ping is %v", modern, name, err)
			}
		}
	}
}
