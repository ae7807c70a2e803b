package router

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// A member that is too new for a client is counted and gets an older form, after names and URIs
// became public.
func TestDownLevelling(t *testing.T) {
	up := &fakeUpstream{answer: func(_ context.Context, c *call.Call) (call.Result, error) {
		c.Back.Notify(wire.NoteElicitComplete, wire.Raw(`{"elicitationId":"e"}`))
		c.Back.Notify(wire.NoteProgress, wire.Raw(`{"progressToken":1,"progress":1,"message":"m"}`))
		return call.Result{Raw: wire.Raw(`{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`), Revision: wire.Rev20251125}, nil
	}}
	src := filesSource(t)
	src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(`{"name":"odd","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`))
	const (
		note  = `notifications/progress {"progressToken":1,"progress":1,"message":"m"}`
		ended = `notifications/elicitation/complete {"elicitationId":"e"}`
	)
	tests := []struct {
		revision wire.Revision
		result   string
		notes    []string
		schema   bool // the tool with the newer schema is listed
		counted  string
	}{
		{
			wire.Rev20250326, `{"content":[{"type":"text","text":"Link to a resource.\nName: a\nURI: files+file:///a"}]}`, []string{note}, false,
			`mcp_gateway_downlevelled_total{kind="notification"} 1
mcp_gateway_downlevelled_total{kind="output_schema"} 1
mcp_gateway_downlevelled_total{kind="resource_link"} 1
`,
		},
		{
			wire.Rev20251125, `{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}]}`, []string{ended, note}, false,
			`mcp_gateway_downlevelled_total{kind="output_schema"} 1
`,
		},
		{
			wire.Rev20260728, `{"content":[{"type":"resource_link","uri":"files+file:///a","name":"a"}]}`, []string{note}, true,
			`mcp_gateway_downlevelled_total{kind="notification"} 1
`,
		},
	}
	for _, tt := range tests {
		t.Run(string(tt.revision), func(t *testing.T) {
			h := newTestRouter(t, up, src)
			close(h.started)
			client := &recorder{}
			ask := func(method, params string) string {
				c := newCall(method, params, client)
				c.Client = &call.Client{Key: "c", Revision: tt.revision}
				res, err := h.Handle(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				return string(res.Raw)
			}
			if diff := cmp.Diff(tt.result, ask("tools/call", `{"name":"files__read"}`)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, client.notes); diff != "" {
				t.Errorf("notifications (-want +got):\n%s", diff)
			}
			if list := ask("tools/list", `{}`); strings.Contains(list, "outputSchema") != tt.schema {
				t.Errorf("list: %s", list)
			}
			want := ""
			if tt.counted != "" {
				want = "# HELP mcp_gateway_downlevelled_total Parts of answers that a client's revision does not know and that were replaced or left out.\n" +
					"# TYPE mcp_gateway_downlevelled_total counter\n" + tt.counted
			}
			if err := testutil.CollectAndCompare(h.metrics.downlevels, strings.NewReader(want)); err != nil {
				t.Error(err)
			}
		})
	}
}
