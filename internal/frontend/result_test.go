package frontend

import (
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// A legacy server cannot ask with its result. If such members reached a modern client,
// they would be asks without a label and without a check of the client's capabilities.
func TestResultOfALegacyUpstreamIsComplete(t *testing.T) {
	const asks = `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Password?"}}}`
	s := New(Options{Handler: refusingHandler{}, Info: wire.Raw(`{}`)})
	for _, tt := range []struct {
		raw      string
		revision wire.Revision
		kind     string
	}{
		{`{"content":[],"resultType":"input_required",` + asks + `}`, wire.Rev20251125, "complete"},
		{`{"resultType":"complete","content":[],"resultType":"input_required"}`, wire.Rev20251125, "complete"},
		{`{"resultType":"input_required","content":[],"resultType":"complete"}`, wire.Rev20251125, "complete"},
		{`{"resultType":"task","taskId":"1"}`, wire.Rev20241105, "complete"},
		{`{"resultType":"input_required",` + asks + `}`, wire.Rev20260728, "input_required"},
		{`{"resultType":"input_required",` + asks + `}`, "", "input_required"}, // the gateway's own
	} {
		x := &exchange{s: s, id: wire.IDOf("1"), call: call.Call{Method: wire.MethodToolsCall, Client: &call.Client{Revision: wire.Rev20260728}}}
		text := x.message(answer{result: call.Result{Raw: wire.Raw(tt.raw), Revision: tt.revision}})
		if err := wire.Check(text, wire.Limits{}, wire.Strict); err != nil {
			t.Errorf("%s of %q became %s: %v", tt.raw, tt.revision, text, err)
		}
		result := wire.ValueOf(text).Get("result")
		if !result.Get("resultType").IsString(tt.kind) || strings.Count(string(text), "resultType") != 1 {
			t.Errorf("%s of %q became %s, want %s", tt.raw, tt.revision, text, tt.kind)
		}
	}
}
