package upstream

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// draftConn answers resources/metadata with what a test gives it.
type draftConn struct {
	protocol.Conn
	answer string
	refuse error
	got    []string
}

func (d *draftConn) Call(_ context.Context, c *call.Call) (call.Result, error) {
	d.got = append(d.got, c.Method)
	if c.Method == wire.MethodResourcesMetadata {
		return call.Result{Raw: wire.Raw(d.answer)}, d.refuse
	}
	return call.Result{Raw: wire.Raw(`{"resources":[]}`)}, nil
}

// Whether a server knows the draft is found out once for each conversation.
func TestDraftIsFoundOut(t *testing.T) {
	const metadata, list = wire.MethodResourcesMetadata, wire.MethodResourcesList
	for name, tc := range map[string]struct {
		answer string
		refuse error
		sent   []string // of: list, metadata, metadata, list
		listed bool
	}{
		"it does":                    {`{"resource":{"uri":"a:"}}`, nil, []string{metadata, metadata, list}, true},
		"it does not":                {"", wire.Errorf(wire.CodeMethodNotFound, "no"), []string{metadata}, false},
		"the resource is missing":    {"", wire.Errorf(wire.CodeResourceNotFound, "no"), []string{metadata, metadata}, false},
		"it answers anything":        {`{}`, nil, []string{metadata, metadata}, false},
		"the connection broke":       {"", &protocol.CallError{Reason: protocol.ReasonConnectionLost, ConnectionLost: true}, []string{metadata, metadata}, false},
		"what it answers is no such": {`{"resource":"a:"}`, nil, []string{metadata, metadata}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d draft
			c := &draftConn{answer: tc.answer, refuse: tc.refuse}
			var last error
			for _, method := range []string{list, metadata, metadata, list} {
				_, last = d.call(t.Context(), c, &call.Call{Method: method, Params: wire.Raw(`{"uri":"a:"}`)})
			}
			if !slices.Equal(c.got, tc.sent) {
				t.Errorf("the server got %q, want %q", c.got, tc.sent)
			}
			if listed := last == nil; listed != tc.listed {
				t.Errorf("the list of a collection: %v", last)
			}
			if rpc, ok := last.(*wire.Error); !tc.listed && (!ok || rpc.Code != wire.CodeMethodNotFound || rpc.Raw != nil) {
				t.Errorf("the list of a collection: %v", last)
			}

			if tc.listed {
				c.refuse = wire.Errorf(wire.CodeMethodNotFound, "no")
				if _, err := d.call(t.Context(), c, &call.Call{Method: metadata}); err == nil || !d.of(c).knows {
					t.Errorf("after it has said no once, it is taken for one that does not know the method (%v)", err)
				}
			}
			next := &draftConn{answer: `{"resource":{}}`}
			if _, err := d.call(t.Context(), next, &call.Call{Method: metadata}); err != nil || len(next.got) != 1 {
				t.Errorf("in the next conversation: %v, the server got %q", err, next.got)
			}
			if _, err := d.call(t.Context(), next, &call.Call{Method: wire.MethodToolsCall}); err != nil || len(next.got) != 2 {
				t.Errorf("another method: %v, the server got %q", err, next.got)
			}
		})
	}
}

// A session is not given up because its server does not know a method that no
// revision has, however it says so.
func TestUnknownMethodKeepsTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse   func(w http.ResponseWriter, m wire.Message)
		sessions int
	}{
		"400 and text": {func(w http.ResponseWriter, _ wire.Message) { http.Error(w, "unsupported", http.StatusBadRequest) }, 1},
		"400 and the answer": {func(w http.ResponseWriter, m wire.Message) {
			answerError(w, 400, m.ID.String(), `{"code":-32601,"message":"no"}`)
		}, 1},
		"200 and the answer": {func(w http.ResponseWriter, m wire.Message) {
			answerError(w, 200, m.ID.String(), `{"code":-32601,"message":"no"}`)
		}, 1},
		"404, as for sessions": {func(w http.ResponseWriter, _ wire.Message) { http.NotFound(w, nil) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stateful: true, on: map[string]on{}}
			s.on[wire.MethodResourcesMetadata] = func(w http.ResponseWriter, _ *http.Request, m wire.Message) { tc.refuse(w, m) }
			c := converse(t, s, legacyEra)
			cl := tool("a", `{"uri":"a:1"}`, nil)
			cl.Method = wire.MethodResourcesMetadata
			if got := outcome(new(draft).call(t.Context(), c.Conn, cl)); !strings.Contains(got, "-32601") {
				t.Errorf("got %s", got)
			}
			equal(t, "sessions", len(s.got(wire.MethodInitialize)), tc.sessions)
			equal(t, "the next call", c.do(t, tool("a", `{"name":"x"}`, nil)), doneResult)
		})
	}
}
