package upstream

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// everyMinute probes servers that were idle for a minute.
func everyMinute() *connector.Health {
	return connector.NewHealth(connector.HealthSettings{Interval: time.Minute})
}

// rarely are limits with which the gateway sends no requests by itself but probes.
var rarely = connector.Limits{RefreshMin: 1000 * time.Hour}

// foundWithin is how long it takes at most to find out that an idle server hangs: it is not
// idle at the first look, and the wait is up to a tenth longer.
const foundWithin = 2*66*time.Second + protocol.ProbeTries*protocol.ProbeTime + time.Second

// A process that hangs while nobody calls it is found and started again. One that answers
// anything, or works on a call, is kept.
func TestIdleProcessIsProbed(t *testing.T) {
	for name, tc := range map[string]struct {
		hangs, refuses, calls bool
		interval              time.Duration
		ended                 bool
	}{
		"it answers":                    {interval: time.Minute},
		"it answers with an error":      {interval: time.Minute, refuses: true},
		"it hangs":                      {interval: time.Minute, hangs: true, ended: true},
		"it works on a call":            {interval: time.Minute, hangs: true, calls: true},
		"it hangs and nobody probes it": {hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var pings atomic.Int64
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method != wire.MethodPing || tc.hangs && l.N == 1 {
						return
					}
					pings.Add(1)
					if tc.refuses {
						l.Refuse(m, wire.CodeMethodNotFound, "no")
					} else {
						l.Result(m, `{}`)
					}
				})}
				metrics := connector.NewMetrics()
				health := connector.NewHealth(connector.HealthSettings{Interval: tc.interval})
				r := start(t, Options{Server: Server{Pipe: s.Pipe}, Limits: connector.Limits{RefreshMin: 1000 * time.Hour, Timeout: time.Hour}, Health: health, Metrics: metrics})
				r.watch.wait(t, isReady)
				if tc.calls {
					r.doing(t.Context(), upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{}))
				}
				time.Sleep(foundWithin)
				synctest.Wait()
				if ended := s.Starts() > 1; ended != tc.ended {
					t.Errorf("started again: %v, want %v", ended, tc.ended)
				}
				want := 0.0
				if tc.ended {
					want = 1
					upstreamtest.Equal(t, "reason", r.watch.wait(t, isDown).Reason, protocol.ErrIdleHung.Error())
					time.Sleep(10 * time.Second) // the backoff
					upstreamtest.Equal(t, "state", r.Snapshot().State, connector.Ready)
				}
				upstreamtest.Equal(t, "hung", metric(t, metrics, "mcp_gateway_upstream_hung_total"), want)
				before := pings.Load()
				time.Sleep(10 * 66 * time.Second)
				if got := pings.Load() - before; tc.interval != 0 && !tc.calls && got < 9 || tc.interval == 0 && got > 0 {
					t.Errorf("%d pings in ten intervals", got)
				}
				if tc.interval == 0 { // a reload turns probes on
					health.Set(connector.HealthSettings{Interval: time.Minute})
					time.Sleep(time.Minute + foundWithin)
					upstreamtest.Equal(t, "starts after probes were turned on", s.Starts(), 2)
				}
			})
		})
	}
}

// An HTTP server that hangs while nobody calls it becomes down, and ready with its next
// answer.
func TestIdleHTTPServerIsProbed(t *testing.T) {
	for era, serve := range map[string]func(*script) http.Handler{
		"legacy":   func(s *script) http.Handler { s.stateful = true; return s },
		"modern":   func(s *script) http.Handler { s.modern = true; return s },
		"HTTP+SSE": func(s *script) http.Handler { return &sseScript{script: s} },
	} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := serve(&script{on: lists})
				var stuck atomic.Bool
				outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if stuck.Load() {
						<-r.Context().Done()
						return
					}
					r.Body = io.NopCloser(strings.NewReader(string(body)))
					inner.ServeHTTP(w, r)
				})
				o := Options{Server: Server{HTTP: serveInMemory(t, outer)}, Limits: rarely, Health: everyMinute()}
				if era == "HTTP+SSE" {
					o.Transport = transport.SSE
				}
				r := start(t, o)
				r.watch.wait(t, isReady)
				synctest.Wait()
				time.Sleep(10 * time.Minute)
				upstreamtest.Equal(t, "state of an idle server", r.Snapshot().State, connector.Ready)
				stuck.Store(true)
				time.Sleep(foundWithin)
				synctest.Wait()
				upstreamtest.Equal(t, "state", r.Snapshot().State, connector.Down)
				upstreamtest.Equal(t, "reason", r.watch.wait(t, isDown).Reason, protocol.ErrIdleHung.Error())
				stuck.Store(false)
				time.Sleep(2 * time.Minute) // the unanswered attempt and the backoff
				upstreamtest.Equal(t, "state after recovery", r.Snapshot().State, connector.Ready)
			})
		})
	}
}
