package upstream

import (
	"errors"
	"net/http"
	"testing"

	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// The session stays when the server reports an unknown method, in any of the known
// ways.
func TestUnknownMethodKeepsTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse   func(w http.ResponseWriter, m wire.Message)
		sessions int
	}{
		"400 with text": {func(w http.ResponseWriter, _ wire.Message) { http.Error(w, "unsupported", http.StatusBadRequest) }, 1},
		"400 with the answer": {func(w http.ResponseWriter, m wire.Message) {
			answerError(w, 400, m.ID.String(), `{"code":-32601,"message":"no"}`)
		}, 1},
		"200 with the answer": {func(w http.ResponseWriter, m wire.Message) {
			answerError(w, 200, m.ID.String(), `{"code":-32601,"message":"no"}`)
		}, 1},
		"404, as for an expired session": {func(w http.ResponseWriter, _ wire.Message) { http.NotFound(w, nil) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, on: map[string]on{}}
			s.on[wire.MethodResourcesMetadata] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) { tc.refuse(w, m) }
			c := converse(t, s, legacyEra)
			cl := tool("a", `{"uri":"a:1"}`, nil)
			cl.Method = wire.MethodResourcesMetadata
			if _, err := c.Call(t.Context(), cl); !saysUnknownMethod(err) {
				t.Errorf("got %v", err)
			}
			upstreamtest.Equal(t, "sessions", len(s.got(wire.MethodInitialize)), tc.sessions)
			upstreamtest.Equal(t, "the next call", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
		})
	}
}

// saysUnknownMethod reports whether err says that the server does not know the
// method.
func saysUnknownMethod(err error) bool {
	if e, ok := err.(*wire.Error); ok {
		return e.Code == wire.CodeMethodNotFound
	}
	f, _ := errors.AsType[*protocol.CallError](err)
	if f == nil {
		return false
	}
	h, ok := errors.AsType[diagnose.HTTPError](f.Cause)
	return ok && (h.StatusCode() == http.StatusBadRequest || h.StatusCode() == http.StatusNotFound)
}
