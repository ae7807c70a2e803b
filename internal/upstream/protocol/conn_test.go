package protocol

import (
	"testing"

	"mcpgateway/internal/wire"
)

// A result counts as complete only if it says so once, in an era that knows the member. All others
// are looked at for questions and tasks.
func TestCompleteResults(t *testing.T) {
	for _, tt := range []struct {
		result   string
		revision wire.Revision
		complete bool
	}{
		{`{"resultType":"complete","content":[]}`, wire.Rev20260728, true},
		{`{"content":[{"resultType":"task"}],"result\u0054ype":"complete"}`, wire.Rev20260728, true},
		{`{"resultType":"complete"}`, wire.Rev20251125, false},
		{`{"content":[]}`, wire.Rev20260728, false},
		{`{"resultType":"input_required","inputRequests":{}}`, wire.Rev20260728, false},
		{`{"resultType":"task"}`, wire.Rev20260728, false},
		{`{"resultType":["complete"]}`, wire.Rev20260728, false},
		{`{"resultType":"complete","resultType":"input_required"}`, wire.Rev20260728, false},
		{`{"resultType":"complete","result\u0054ype":"task"}`, wire.Rev20260728, false},
	} {
		m, err := wire.ParseUpstream([]byte(`{"jsonrpc":"2.0","id":1,"result":`+tt.result+`}`), wire.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", tt.result, err)
		}
		if r, err := ResultOf(m, tt.revision); err != nil || r.Complete != tt.complete {
			t.Errorf("%s of %s: complete %v, %v; want %v", tt.result, tt.revision, r.Complete, err, tt.complete)
		}
	}
}
