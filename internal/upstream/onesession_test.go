package upstream

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// Only a refusal says that a server opens a single session. If the attempt at a second one fails otherwise, the call uses
// the session of all clients, and the second one is tried again.
func TestOneSessionIsConcludedFromRefusals(t *testing.T) {
	status := func(status int) on {
		return func(w http.ResponseWriter, _ *http.Request, _ wire.Message) { w.WriteHeader(status) }
	}
	hang := func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() }
	for name, tc := range map[string]struct {
		second  on // answers the second initialize
		change  func(*Options)
		refuses bool
	}{
		"no answer in time":            {second: hang, change: func(o *Options) { o.Timeout = 2 * time.Second }},
		"no answer while a call waits": {second: hang, change: func(o *Options) { o.StartupWait = 50 * time.Millisecond; o.Timeout = 2 * time.Second }},
		"the connection is lost":       {second: func(http.ResponseWriter, *http.Request, wire.Message) { panic(http.ErrAbortHandler) }},
		"HTTP 401":                     {second: status(http.StatusUnauthorized)},
		"HTTP 429":                     {second: status(http.StatusTooManyRequests)},
		"HTTP 503":                     {second: status(http.StatusServiceUnavailable)},
		"HTTP 500":                     {second: status(http.StatusInternalServerError), refuses: true},
		"an error": {second: func(w http.ResponseWriter, _ *http.Request, m wire.Message) {
			answerError(w, http.StatusOK, m.ID.String(), `{"code":-32600,"message":"already initialized"}`)
		}, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int64
			s := &script{on: map[string]on{}}
			s.on[wire.MethodInitialize] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
				n := opened.Add(1)
				if n == 2 {
					tc.second(w, r, m)
					return
				}
				w.Header().Set(wire.HeaderSession, fmt.Sprint("s", n))
				answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
			}
			core, logs := observer.New(zap.InfoLevel)
			h := startSharedSessions(t, s, func(o *Options) {
				o.Era, o.Logger = wire.EraLegacy, zap.New(core)
				if tc.change != nil {
					tc.change(o)
				}
			})
			call := func() string { return h.call(t.Context(), legacyCall("ann", `{}`, &upstreamtest.Peer{})) }
			upstreamtest.Equal(t, "the call", call(), doneResult)
			const message = "the server opens only one session: all clients share it, whatever they can do"
			upstreamtest.Equal(t, "conclusions", logs.FilterMessage(message).Len() > 0, tc.refuses)
			if tc.refuses {
				upstreamtest.Equal(t, "the next call", call(), doneResult)
				upstreamtest.Equal(t, "attempts", opened.Load(), 2)
				return
			}
			polltest.Until(t, "a call uses a session of its own", func() bool {
				upstreamtest.Equal(t, "a later call", call(), doneResult)
				calls := s.got(wire.MethodToolsCall)
				return calls[len(calls)-1].header.Get(wire.HeaderSession) != "s1"
			})
		})
	}
}
