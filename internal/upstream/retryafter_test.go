package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// Clients get the time after which a server may be asked again.
func TestRetryAfter(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header string
		want   string // suffix of the error data
	}{
		"429":                  {429, "7", `,"retryAfter":7}`},
		"429 without a header": {429, "", `,"retryAfter":5}`},
		"503":                  {503, "20", `,"retryAfter":20}`},
		"503 without a header": {503, "", `"retryable":false}`},
		"a very long time":     {503, "99999999", `,"retryAfter":3600}`},
		"overflow":             {503, "99999999999999999999", `"retryable":false}`},
		"a date":               {503, "Wed, 21 Oct 2026 07:28:00 GMT", `"retryable":false}`},
		"below zero":           {503, "-1", `"retryable":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{on: map[string]on{
				wire.MethodToolsList: lists[wire.MethodToolsList],
				wire.MethodToolsCall: func(w http.ResponseWriter, _ *http.Request, _ wire.Message) {
					if tc.header != "" {
						w.Header().Set("Retry-After", tc.header)
					}
					w.WriteHeader(tc.status)
				},
			}}
			u, err := url.Parse(serve(t, s).URL)
			if err != nil {
				t.Fatal(err)
			}
			r := start(t, Options{Server: Server{HTTP: &httpconn.Config{URL: u}, Era: wire.EraLegacy}})
			r.watch.wait(t, isReady)
			_, err = r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))
			if got := upstreamtest.DataOf(t, err); !strings.HasSuffix(got, tc.want) {
				t.Errorf("data %s, want %s", got, tc.want)
			}
		})
	}
}

// A server that answers the attempt to connect with Retry-After is left alone that long, at
// most for the longest pause. Calls fail meanwhile, and say when to come again.
func TestRetryAfterOfConnections(t *testing.T) {
	for name, tc := range map[string]struct {
		header string
		pause  time.Duration
	}{
		"a while":          {"7", 7 * time.Second},
		"a very long time": {"3600", protocol.MaxPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var busy atomic.Bool
				busy.Store(true)
				s := &script{on: map[string]on{wire.MethodToolsList: lists[wire.MethodToolsList]}}
				s.on[wire.MethodInitialize] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
					if busy.Load() {
						w.Header().Set("Retry-After", tc.header)
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					s.initialize(w, m, "2025-11-25")
				}
				r := start(t, Options{Server: Server{HTTP: serveInMemory(t, s), Era: wire.EraLegacy}})
				r.watch.wait(t, isDown)
				began := time.Now()
				_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))
				want := fmt.Sprintf(`"retryable":true,"retryAfter":%d}`, int(tc.pause.Seconds()))
				if got := upstreamtest.DataOf(t, err); !strings.HasSuffix(got, want) || time.Since(began) > 0 {
					t.Errorf("after %s data %s, want %s", time.Since(began), got, want)
				}
				r.Retry() // as new credentials do
				time.Sleep(tc.pause - time.Millisecond)
				upstreamtest.Equal(t, "attempts before the time", len(s.got(wire.MethodInitialize)), 1)
				busy.Store(false)
				time.Sleep(2 * time.Millisecond)
				r.watch.wait(t, isReady)
				if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))); got != doneResult {
					t.Errorf("a call after the time: %s", got)
				}
			})
		})
	}
}

// A list that was refused with Retry-After is not gathered before.
func TestRetryAfterOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{on: map[string]on{}}
		s.on[wire.MethodToolsList] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
			if len(s.got(wire.MethodToolsList)) == 1 {
				w.Header().Set("Retry-After", "12")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			lists[wire.MethodToolsList](w, r, m)
		}
		r := start(t, Options{Server: Server{HTTP: serveInMemory(t, s), Era: wire.EraLegacy}})
		r.watch.wait(t, func(s connector.Snapshot) bool { return s.State == connector.Degraded })
		time.Sleep(12*time.Second - time.Millisecond)
		upstreamtest.Equal(t, "requests before the time", len(s.got(wire.MethodToolsList)), 1)
		time.Sleep(2 * time.Millisecond)
		r.watch.wait(t, isReady)
	})
}
