package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// idsOf are the request ids of the requests that have this JSON-RPC or HTTP method.
func idsOf(s *script, what string) string {
	var all []string
	for _, r := range s.got(what) {
		all = append(all, strings.Join(r.header.Values(requestid.Header), " | "))
	}
	return strings.Join(all, ", ")
}

func callWithID(c *call.Call, id string) *call.Call {
	c.ID = id
	return c
}

// The id of a request is in the headers of what is sent for it, and of nothing else, unless the header is configured.
func TestRequestIDReachesTheServer(t *testing.T) {
	legacy := func(id string) *call.Call { return callWithID(tool("a", `{"name":"x"}`, nil), id) }
	modern := func(id string) *call.Call { return callWithID(modernCall(wire.MethodToolsCall, `{"name":"x"}`), id) }
	for name, tc := range map[string]struct {
		script *script
		change func(o *Options)
		call   func(id string) *call.Call
		begin  string // the method of the request that begins the conversation
	}{
		"legacy": {&script{stateful: true}, legacyEra, legacy, wire.MethodInitialize},
		"modern": {&script{modern: true}, func(*Options) {}, modern, wire.MethodDiscover},
		"sse":    {&script{}, overSSE, legacy, wire.MethodInitialize},
	} {
		t.Run(name, func(t *testing.T) {
			handler := http.Handler(tc.script)
			if name == "sse" {
				handler = &sseScript{script: tc.script}
			}
			c := converse(t, handler, tc.change)
			for _, id := range []string{"one", "two", ""} {
				upstreamtest.Equal(t, "outcome", c.do(t, tc.call(id)), doneResult)
			}
			upstreamtest.Equal(t, "ids of calls", idsOf(tc.script, wire.MethodToolsCall), "one, two, ")
			upstreamtest.Equal(t, "id of the beginning", idsOf(tc.script, tc.begin), "")
		})
		t.Run(name+", configured", func(t *testing.T) {
			s := &script{modern: tc.script.modern}
			handler := http.Handler(s)
			if name == "sse" {
				handler = &sseScript{script: s}
			}
			c := converse(t, handler, tc.change, func(o *Options) { o.HTTP.Headers = map[string]string{"x-request-id": "mine"} })
			upstreamtest.Equal(t, "outcome", c.do(t, tc.call("one")), doneResult)
			upstreamtest.Equal(t, "ids", idsOf(s, wire.MethodToolsCall), "mine")
		})
	}
}

// A cancellation has the id of the request that it ends.
func TestRequestIDOfACancellation(t *testing.T) {
	s := &script{stateful: true, on: map[string]on{
		wire.MethodToolsCall: func(_ http.ResponseWriter, r *http.Request, _ wire.Message) { <-r.Context().Done() },
	}}
	c := converse(t, s, legacyEra)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Call(ctx, callWithID(tool("a", `{"name":"x"}`, nil), "one"))
	}()
	polltest.Until(t, "the call is there", func() bool { return len(s.got(wire.MethodToolsCall)) == 1 })
	cancel()
	<-ended
	polltest.Until(t, "the cancellation is there", func() bool { return len(s.got(wire.NoteCancelled)) == 1 })
	upstreamtest.Equal(t, "id", idsOf(s, wire.NoteCancelled), "one")
}
