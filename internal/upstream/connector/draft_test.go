package connector

import (
	"context"
	"slices"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// draftConn answers resources/metadata as configured.
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

// statusError is an HTTP response with a status.
type statusError int

func (s statusError) Error() string         { return "HTTP status" }
func (s statusError) StatusCode() int       { return int(s) }
func (statusError) ServerMessage() string   { return "" }
func (statusError) ServerRequestID() string { return "" }
func (statusError) UsesOAuth() bool         { return false }
func (statusError) MissingScopes() []string { return nil }
func (statusError) WantsTLS() bool          { return false }

// The gateway detects once for each connection whether a server knows the draft.
func TestDraftDetection(t *testing.T) {
	const metadata, list = wire.MethodResourcesMetadata, wire.MethodResourcesList
	for name, tc := range map[string]struct {
		answer string
		refuse error
		sent   []string // of: list, metadata, metadata, list
		listed bool
	}{
		"supported":        {`{"resource":{"uri":"a:"}}`, nil, []string{metadata, metadata, list}, true},
		"unknown method":   {"", wire.Errorf(wire.CodeMethodNotFound, "no"), []string{metadata}, false},
		"missing resource": {"", wire.Errorf(wire.CodeResourceNotFound, "no"), []string{metadata, metadata}, false},
		"empty answer":     {`{}`, nil, []string{metadata, metadata}, false},
		"HTTP status 400":  {"", &protocol.CallError{Reason: "HTTP status 400", Cause: statusError(400)}, []string{metadata}, false},
		"HTTP status 500":  {"", &protocol.CallError{Reason: "HTTP status 500", Cause: statusError(500)}, []string{metadata, metadata}, false},
		"connection lost":  {"", &protocol.CallError{Reason: protocol.ReasonConnectionLost, ConnectionLost: true}, []string{metadata, metadata}, false},
		"invalid answer":   {`{"resource":"a:"}`, nil, []string{metadata, metadata}, false},
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
					t.Errorf("one refusal disables the method (%v)", err)
				}
			}
			next := &draftConn{answer: `{"resource":{}}`}
			if _, err := d.call(t.Context(), next, &call.Call{Method: metadata}); err != nil || len(next.got) != 1 {
				t.Errorf("next connection: %v, the server got %q", err, next.got)
			}
			if _, err := d.call(t.Context(), next, &call.Call{Method: wire.MethodToolsCall}); err != nil || len(next.got) != 2 {
				t.Errorf("other method: %v, the server got %q", err, next.got)
			}
		})
	}
}
