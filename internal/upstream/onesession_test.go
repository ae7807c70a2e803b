package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
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

// While the circuit breaker of the catalog session is open, a call does not wait for a session of its own: it is refused.
func TestOpenBreakerOfTheCatalogSession(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() }
	fail := func(http.ResponseWriter, *http.Request, wire.Message) { panic(http.ErrAbortHandler) }
	var opened atomic.Int64
	s := &script{on: map[string]on{wire.MethodToolsCall: fail, wire.MethodPing: fail}}
	s.on[wire.MethodInitialize] = func(w http.ResponseWriter, r *http.Request, m wire.Message) {
		if opened.Add(1) > 1 {
			hang(w, r, m)
			return
		}
		w.Header().Set(wire.HeaderSession, "s1")
		answerJSON(w, m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"1"}}`)
	}
	h := startSharedSessions(t, s, func(o *Options) {
		o.Era, o.Timeout, o.StartupWait = wire.EraLegacy, time.Hour, time.Hour
		o.Health = connector.NewHealth(connector.HealthSettings{Failures: 1, Open: time.Hour})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	refused := func(client, capabilities string) bool {
		return strings.Contains(h.call(ctx, legacyCall(client, capabilities, &upstreamtest.Peer{})), "the circuit breaker is open")
	}
	polltest.Until(t, "the breaker opens", func() bool {
		return refused("ann", `{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}`) // uses the catalog session
	})
	if !refused("bob", `{}`) {
		t.Error("the call of a client that needs a session of its own is not refused")
	}
}
