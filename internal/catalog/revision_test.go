package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/downlevel"
	"mcpgateway/internal/wire"
)

// Every client gets items in the form of its revision, without an effect on other clients.
func TestPagesByRevision(t *testing.T) {
	const (
		plain = `{"name":"a__p","inputSchema":{"type":"object"}}`
		odd   = `{"name":"a__o","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`
		task  = `{"name":"a__t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`

		oddOld  = `{"name":"a__o","inputSchema":{"type":"object"}}`
		taskOld = `{"name":"a__t","inputSchema":{"type":"object"},"execution":{}}`
	)
	v := build(source(t, "a", "a",
		`{"name":"p","inputSchema":{"type":"object"}}`,
		`{"name":"o","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`,
		`{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`,
	)).View(call.Anonymous, nil)
	const envelope = `"resultType":"complete","ttlMs":60000,"cacheScope":"public",`
	for rev, want := range map[wire.Revision]struct {
		page  string
		tally downlevel.Counts
	}{
		wire.Rev20260728: {`{` + envelope + `"tools":[` + plain + `,` + odd + `,` + task + `]}`, downlevel.Counts{}},
		wire.Rev20251125: {`{"tools":[` + plain + `,` + oddOld + `,` + task + `]}`, downlevel.Counts{downlevel.OutputSchema: 1}},
		wire.Rev20250618: {`{"tools":[` + plain + `,` + oddOld + `,` + taskOld + `]}`, downlevel.Counts{downlevel.OutputSchema: 1, downlevel.TaskRequired: 1}},
		wire.Rev20250326: {`{"tools":[` + plain + `,` + oddOld + `,` + taskOld + `]}`, downlevel.Counts{downlevel.OutputSchema: 1, downlevel.TaskRequired: 1}},
		wire.Rev20241105: {`{"tools":[` + plain + `,` + oddOld + `,` + taskOld + `]}`, downlevel.Counts{downlevel.OutputSchema: 1, downlevel.TaskRequired: 1}},
	} {
		for range 2 { // the second page comes from the cache
			got, tally, err := v.Page(call.Tool, rev, "", since)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.page, string(got.Raw)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", rev, diff)
			}
			if tally != want.tally {
				t.Errorf("%s: counted %v, want %v", rev, tally, want.tally)
			}
		}
	}
}

// Revisions share one encoding if nothing differs.
func TestPagesAreShared(t *testing.T) {
	same := func(v *View, a, b wire.Revision) bool {
		first, _, _ := v.Page(call.Tool, a, "", since)
		second, _, _ := v.Page(call.Tool, b, "", since)
		again, _, _ := v.Page(call.Tool, a, "", since)
		if &first.Raw[0] != &again.Raw[0] {
			t.Errorf("the page for %s was encoded twice", a)
		}
		return &first.Raw[0] == &second.Raw[0]
	}
	odd := source(t, "a", "a", `{"name":"o","inputSchema":{"type":"object","properties":{"x":true}},"outputSchema":{}}`)
	task := source(t, "a", "a", `{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`)
	for _, tt := range []struct {
		name string
		src  Source
		a, b wire.Revision
		want bool
	}{
		{"one class", task, wire.Rev20241105, wire.Rev20250618, true},
		{"two classes, nothing differs", odd, wire.Rev20251125, wire.Rev20241105, true},
		{"two classes, nothing differs, the older first", odd, wire.Rev20241105, wire.Rev20251125, true},
		{"two classes, an item differs", task, wire.Rev20241105, wire.Rev20251125, false},
		{"two eras", source(t, "a", "a", tool("p")), wire.Rev20260728, wire.Rev20251125, false},
	} {
		if got := same(build(tt.src).View(call.Anonymous, nil), tt.a, tt.b); got != tt.want {
			t.Errorf("%s: shared: %v, want %v", tt.name, got, tt.want)
		}
	}
}
