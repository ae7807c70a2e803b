package catalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// A new time to live changes the beginning of a page only, and the rest keeps its compressed
// form.
func TestPageKeepsItsTextWithAnotherTTL(t *testing.T) {
	tbl := Build(Options{Policy: allowAll, ServerInfo: wire.Raw(`{"name":"g"}`)}, []Source{source(t, "a", "a", tool("t"))})
	v := tbl.View(call.Anonymous, nil)
	first, _, err := v.Page(call.Tool, wire.Rev20260728, "", since)
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{time.Second, 59950 * time.Millisecond, time.Hour} {
		page, _, err := v.Page(call.Tool, wire.Rev20260728, "", since.Add(age))
		if err != nil {
			t.Fatal(err)
		}
		mustJSON(t, page.Raw)
		if page.Page.Text != first.Page.Text || string(page.Raw[page.Page.Start:]) != string(first.Raw[first.Page.Start:]) {
			t.Errorf("after %v the rest of the page is another: %s, before %s", age, page.Raw, first.Raw)
		}
		fresh := v.encode(call.Tool, 0, v.fresh.ttl(since.Add(age)), 0, v.pages[call.Tool][0])
		if string(page.Raw) != string(fresh.Raw) || page.Page.Start != fresh.Page.Start {
			t.Errorf("after %v: %s from %d, encoded anew: %s from %d", age, page.Raw, page.Page.Start, fresh.Raw, fresh.Page.Start)
		}
	}
}

// viewsOfGroups returns a table of 20 tools and the principals who see one of them each,
// with pages of about a KiB.
func viewsOfGroups(t *testing.T) (*Table, []*call.Principal) {
	o := policy.Options{}
	var items []string
	var all []*call.Principal
	for i := range 20 {
		items = append(items, fmt.Sprintf(`{"name":"t%d","description":%q,"inputSchema":{"type":"object"}}`, i, strings.Repeat("x", 1000)))
		o.Rules = append(o.Rules, policy.Rule{
			Name: fmt.Sprint("r", i), Effect: policy.Allow, Who: policy.Who{Groups: []string{fmt.Sprint("g", i)}},
			What: policy.What{Tools: []string{fmt.Sprint("a__t", i)}},
		})
		all = append(all, who("someone", fmt.Sprint("g", i)))
	}
	return Build(Options{Policy: policy.MustNew(o)}, []Source{source(t, "a", "a", items...)}), all
}

func TestKeptPagesAreBounded(t *testing.T) {
	tbl, all := viewsOfGroups(t)
	if tbl.pages.limit < leastKeptPages {
		t.Errorf("a small table keeps %d bytes, want at least %d", tbl.pages.limit, leastKeptPages)
	}
	page := func(p *call.Principal) *byte {
		page, _, err := tbl.View(p, nil).Page(call.Tool, wire.Rev20251125, "", since)
		if err != nil {
			t.Fatal(err)
		}
		return &page.Raw[0]
	}
	tbl.pages.limit = 10 << 10
	favorite := page(all[0])
	for range 3 {
		for _, p := range all[1:] {
			page(p)
			if page(all[0]) != favorite {
				t.Fatal("the page that is used most was dropped")
			}
			if tbl.pages.bytes > tbl.pages.limit {
				t.Fatalf("%d bytes are kept, want at most %d", tbl.pages.bytes, tbl.pages.limit)
			}
		}
	}
	kept, size := 0, 0
	for _, p := range all {
		if enc := tbl.View(p, nil).pages[call.Tool][0].kept[1].encoded.Load(); enc != nil {
			kept, size = kept+1, size+len(enc.Raw)+keptPageSize
		}
	}
	if kept != len(tbl.pages.pages) || size != tbl.pages.bytes || kept < 4 {
		t.Errorf("%d pages of %d bytes are kept, counted are %d of %d", kept, size, len(tbl.pages.pages), tbl.pages.bytes)
	}
	tbl.pages.limit = 1
	if last := page(all[1]); page(all[1]) != last {
		t.Error("a page that is larger than the limit is not kept")
	}
}
