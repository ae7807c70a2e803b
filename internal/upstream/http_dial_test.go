package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// oneEra remembers the era of one server.
type oneEra struct{ era wire.Era }

func (m *oneEra) Era(string) wire.Era             { return m.era }
func (m *oneEra) Remember(_ string, era wire.Era) { m.era = era }

type on = func(w http.ResponseWriter, r *http.Request, m wire.Message)

func status(code int) on {
	return func(w http.ResponseWriter, _ *http.Request, _ wire.Message) { http.Error(w, "no", code) }
}

func refuse(code int, e string) on {
	return func(w http.ResponseWriter, _ *http.Request, m wire.Message) { answerError(w, code, m.ID.String(), e) }
}

func content(mediaType, body string) on {
	return func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
		w.Header().Set("Content-Type", mediaType)
		fmt.Fprint(w, body)
	}
}

func discovered(versions string) on {
	return func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
		answerJSON(w, m, `{"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{}}`)
	}
}

func TestFindsEraAndTransport(t *testing.T) {
	const unsupported = `{"code":-32022,"message":"unsupported","data":{"supported":[%s],"requested":"2026-07-28"}}`
	for name, tc := range map[string]struct {
		discover, initialize on
		sse                  bool
		change               func(*Options)
		before               wire.Era // remembered before the attempt
		revision             wire.Revision
		trace                string // methods that the server received
		after                wire.Era
		err                  string
	}{
		"modern": {discover: discovered(`["2026-07-28"]`), revision: "2026-07-28", trace: "server/discover", after: wire.EraModern},
		"both":   {discover: discovered(`["2026-07-28","2025-11-25"]`), revision: "2026-07-28", trace: "server/discover", after: wire.EraModern},
		"discover lists legacy revisions only": {
			discover: discovered(`["2025-11-25"]`), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"discover lists only unknown revisions": {
			discover: discovered(`["2031-01-01"]`), trace: "server/discover",
			err: "the server speaks only revisions that the gateway does not know: [2031-01-01]",
		},
		"400": {discover: status(400), revision: "2025-11-25", trace: "server/discover initialize notifications/initialized", after: wire.EraLegacy},
		"404": {discover: status(404), revision: "2025-11-25", trace: "server/discover initialize notifications/initialized", after: wire.EraLegacy},
		"405": {discover: status(405), revision: "2025-11-25", trace: "server/discover initialize notifications/initialized", after: wire.EraLegacy},
		"406": {discover: status(406), revision: "2025-11-25", trace: "server/discover initialize notifications/initialized", after: wire.EraLegacy},
		"method not found": {
			discover: refuse(200, `{"code":-32601,"message":"?"}`), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"method not found with 404": {
			discover: refuse(404, `{"code":-32601,"message":"?"}`), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"invalid params with 400": {
			discover: refuse(400, `{"code":-32602,"message":"?"}`), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"HTML": {
			discover: content("text/html", "<p>hello"), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"accepted without an answer": {
			discover: status(202), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"unsupported, legacy listed": {
			discover: refuse(400, fmt.Sprintf(unsupported, `"2025-11-25","2025-06-18"`)), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"unsupported, only unknown revisions listed": {
			discover: refuse(400, fmt.Sprintf(unsupported, `"2031-01-01"`)), trace: "server/discover",
			err: "the server speaks only revisions that the gateway does not know: [2031-01-01]",
		},
		"header mismatch": {
			discover: refuse(400, `{"code":-32020,"message":"header"}`), trace: "server/discover", err: "header (-32020)",
		},
		"missing capability": {
			discover: refuse(400, `{"code":-32021,"message":"capability"}`), trace: "server/discover", err: "capability (-32021)",
		},
		"401": {discover: status(401), trace: "server/discover", err: "the server refuses the gateway's credentials (HTTP 401)"},
		"403": {discover: status(403), trace: "server/discover", err: "the server refuses the gateway's credentials (HTTP 403)", before: wire.EraModern, after: wire.EraModern},
		"429": {discover: status(429), trace: "server/discover", err: "the server is overloaded (HTTP 429)"},
		"500": {discover: status(500), trace: "server/discover", err: "the server answered HTTP 500 with content type text/plain"},
		"503": {discover: status(503), trace: "server/discover", err: "the server answered HTTP 503 with content type text/plain"},
		"HTTP+SSE": {
			discover: status(404), initialize: status(404), sse: true, revision: "2024-11-05", after: wire.EraLegacy,
			trace: "server/discover initialize GET initialize notifications/initialized",
		},
		"HTTP+SSE after 405": {
			discover: status(405), initialize: status(405), sse: true, revision: "2024-11-05", after: wire.EraLegacy,
			trace: "server/discover initialize GET initialize notifications/initialized",
		},
		"no MCP endpoint": {
			discover: status(404), initialize: status(404), trace: "server/discover initialize GET",
			err: "the server refuses initialize (HTTP 404) and offers no HTTP+SSE stream",
		},
		"initialize 401": {
			discover: status(404), initialize: status(401), trace: "server/discover initialize",
			err: "the server refuses the gateway's credentials (HTTP 401)",
		},
		"initialize refused": {
			discover: status(404), initialize: refuse(200, `{"code":-32602,"message":"not you"}`), trace: "server/discover initialize",
			err: "not you (-32602)",
		},
		"initialize 404 from a modern server": {
			discover: status(404), initialize: refuse(404, fmt.Sprintf(unsupported, `"2026-07-28"`)), trace: "server/discover initialize",
			err: "unsupported (-32022)",
		},
		"unknown revision": {
			discover: status(404), initialize: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
				answerJSON(w, m, `{"protocolVersion":"1999-01-01","capabilities":{}}`)
			}, trace: "server/discover initialize",
			err: `the server answered initialize with revision "1999-01-01"; the gateway speaks [2025-11-25 2025-06-18 2025-03-26 2024-11-05]`,
		},
		"remembered legacy": {
			before: wire.EraLegacy, revision: "2025-11-25", trace: "initialize notifications/initialized", after: wire.EraLegacy,
		},
		"remembered legacy, now modern": {
			before: wire.EraLegacy, initialize: refuse(400, `{"code":-32020,"message":"header"}`), discover: discovered(`["2026-07-28"]`),
			revision: "2026-07-28", trace: "initialize server/discover", after: wire.EraModern,
		},
		"remembered modern, now legacy": {
			before: wire.EraModern, discover: status(400), revision: "2025-11-25", after: wire.EraLegacy,
			trace: "server/discover initialize notifications/initialized",
		},
		"fixed legacy": {
			discover: discovered(`["2026-07-28"]`), change: func(o *Options) { o.Era = wire.EraLegacy },
			revision: "2025-11-25", trace: "initialize notifications/initialized",
		},
		"fixed modern": {
			discover: discovered(`["2026-07-28"]`), change: func(o *Options) { o.Era = wire.EraModern }, revision: "2026-07-28", trace: "server/discover",
		},
		"fixed modern, server is legacy": {
			discover: status(400), change: func(o *Options) { o.Era = wire.EraModern }, trace: "server/discover",
			err: "the server does not speak a modern revision, as its configuration says",
		},
		"fixed streamable": {
			discover: status(404), initialize: status(404), change: func(o *Options) { o.Transport = transport.Streamable },
			trace: "server/discover initialize", err: "the server answered HTTP 404 with content type text/plain",
		},
		"fixed HTTP+SSE": {
			sse: true, change: func(o *Options) { o.Transport = transport.SSE }, revision: "2024-11-05",
			trace: "GET initialize notifications/initialized",
		},
		"fixed HTTP+SSE, no such endpoint": {
			change: func(o *Options) { o.Transport = transport.SSE }, trace: "GET", err: "the server answered HTTP 405 with no content type",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{caps: `{}`, on: map[string]on{}}
			if tc.discover != nil {
				s.on[wire.MethodDiscover] = tc.discover
			}
			if tc.initialize != nil {
				s.on[wire.MethodInitialize] = tc.initialize
			}
			var h http.Handler = s
			if tc.sse {
				h = &sseScript{script: s}
			}
			m := &oneEra{tc.before}
			c, err := tryConverse(t, serve(t, h).URL, nil, func(o *Options) {
				o.Memory, o.EraKey = m, "key"
				if tc.change != nil {
					tc.change(o)
				}
			})
			if err != nil {
				upstreamtest.Equal(t, "error", reasonOf(err), tc.err)
			} else {
				upstreamtest.Equal(t, "error", "", tc.err)
				upstreamtest.Equal(t, "revision", c.hello.Revision, tc.revision)
			}
			got := slices.DeleteFunc(s.trace(), func(what string) bool { return what == "GET" && !strings.Contains(tc.trace, "GET") })
			upstreamtest.Equal(t, "requests", strings.Join(got, " "), tc.trace)
			upstreamtest.Equal(t, "remembered", m.era, tc.after)
		})
	}
}

// reasonOf returns the part of a dial error that a client may read.
func reasonOf(err error) string {
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		return f.Reason
	}
	return err.Error()
}

func TestServerThatIgnoresDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{on: map[string]on{wire.MethodDiscover: func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() }}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		c, hello, err := dialerOf(t, Options{Server: Server{HTTP: serveInMemory(t, s)}}.withDefaults(), nil).Dial(ctx, make(recordedNotifications, 10))
		if err != nil {
			t.Fatal(err)
		}
		upstreamtest.Equal(t, "revision", hello.Revision, wire.Rev20251125)
		upstreamtest.Equal(t, "duration", time.Since(began), time.Second)
		done, stop := context.WithCancel(t.Context())
		stop()
		c.Run(done)
	})
}

func TestDialServerThatIsDown(t *testing.T) {
	m := &oneEra{}
	_, err := tryConverse(t, "http://127.0.0.1:1/mcp", nil, func(o *Options) { o.Memory, o.EraKey = m, "key" })
	upstreamtest.Equal(t, "error", reasonOf(err), "cannot connect to the server")
	upstreamtest.Equal(t, "remembered", m.era, wire.EraUnknown)
}

func TestDialEndsWithItsContext(t *testing.T) {
	for name, kind := range map[string]transport.Kind{"streamable": transport.Auto, "HTTP+SSE": transport.SSE} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{}, 10)
			h := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // so that the server notices the closed connection
				began <- struct{}{}
				<-r.Context().Done()
			}))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-began
				cancel()
			}()
			o := testOptions(t, h.URL, func(o *Options) { o.Transport = kind })
			_, _, err := dialerOf(t, o, nil).Dial(ctx, make(recordedNotifications, 1))
			upstreamtest.Equal(t, "error", err, context.Canceled)
		})
	}
}
