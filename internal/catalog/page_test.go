package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

func pageOf(t *testing.T, v *View, rev wire.Revision, cursor string) wire.Raw {
	t.Helper()
	page, _, err := v.Page(call.Tool, rev, cursor, since)
	if err != nil {
		t.Fatal(err)
	}
	mustJSON(t, page.Raw)
	return page.Raw
}

func TestPageForms(t *testing.T) {
	one, two := source(t, "a", "a", tool("t")), source(t, "b", "b", tool("t"))
	private := two
	private.Freshness = Freshness{At: since.Add(-50 * time.Second), TTL: time.Minute, Private: true}
	stale := two
	stale.Freshness = Freshness{}
	const items = `"tools":[{"name":"a__t","inputSchema":{"type":"object"}},{"name":"b__t","inputSchema":{"type":"object"}}]}`
	const first = `"tools":[{"name":"a__t","inputSchema":{"type":"object"}}]}`
	const lacking = `"mcpgateway/unavailable":[{"upstream":"b","since":"2026-07-28T12:00:00Z","reason":"connection refused"}]`
	tests := []struct {
		name    string
		opts    Options
		sources []Source
		rev     wire.Revision
		want    string
	}{
		{"legacy", Options{}, []Source{one, two}, wire.Rev20251125, `{` + items},
		{"modern", Options{}, []Source{one, two}, wire.Rev20260728, `{"resultType":"complete","ttlMs":60000,"cacheScope":"public",` + items},
		{"the first to go stale, one private", Options{}, []Source{one, private}, wire.Rev20260728, `{"resultType":"complete","ttlMs":10000,"cacheScope":"private",` + items},
		{"a source that is never fresh", Options{}, []Source{stale, one}, wire.Rev20260728, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"b__t","inputSchema":{"type":"object"}},{"name":"a__t","inputSchema":{"type":"object"}}]}`},
		{"legacy, one down", Options{ServerInfo: wire.Raw(`{"name":"g"}`)}, []Source{one, down(two)}, wire.Rev20251125, `{"_meta":{` + lacking + `},` + first},
		{"modern, one down", Options{}, []Source{one, down(two)}, wire.Rev20260728, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","_meta":{` + lacking + `},` + first},
		{"server info", Options{ServerInfo: wire.Raw(`{"name":"g"}`)}, []Source{one, down(two)}, wire.Rev20260728,
			`{"resultType":"complete","ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"g"},` + lacking + `},` + first},
		{"nothing to list", Options{}, []Source{source(t, "a", "a", prompt("p"))}, wire.Rev20251125, `{"tools":[]}`},
		{"no upstream", Options{}, nil, wire.Rev20260728, `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Policy = allowAll
			got := pageOf(t, Build(tt.opts, tt.sources).View(call.Anonymous, nil), tt.rev, "")
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestMembersOfLists(t *testing.T) {
	v := build(source(t, "a", "a", tool("t"), prompt("p"), resource("a:r"), template("a:{t}"))).View(call.Anonymous, nil)
	for kind, want := range map[call.Kind]string{call.Tool: "tools", call.Prompt: "prompts", call.Resource: "resources", call.Template: "resourceTemplates"} {
		page, _, err := v.Page(kind, wire.Rev20251125, "", since)
		if err != nil || !strings.HasPrefix(string(page.Raw), `{"`+want+`":[{`) {
			t.Errorf("%s: %s, %v", kind, page.Raw, err)
		}
	}
}

func TestAllDown(t *testing.T) {
	a, b := down(source(t, "a", "a", tool("t"))), down(source(t, "b", "b"))
	b.Down = &Down{Since: since, Reason: "starting"}
	tests := []struct {
		name    string
		sources []Source
		want    string
	}{
		{"one", []Source{a}, `{"code":-32603,"message":"the upstream a is unavailable: connection refused","data":{"upstream":"a","since":"2026-07-28T12:00:00Z","reason":"connection refused","retryable":true}}`},
		{"two", []Source{a, b}, `{"code":-32603,"message":"these upstreams are unavailable: a (connection refused), b (starting)","data":{"upstream":"a","since":"2026-07-28T12:00:00Z","reason":"connection refused","retryable":true,"unavailable":[{"upstream":"a","since":"2026-07-28T12:00:00Z","reason":"connection refused"},{"upstream":"b","since":"2026-07-28T12:00:00Z","reason":"starting"}]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for kind := range call.Kind(call.Kinds) {
				_, _, err := build(tt.sources...).View(call.Anonymous, nil).Page(kind, wire.Rev20260728, "", since)
				if err == nil || string(err.Append(nil)) != tt.want {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestPagesAreKept(t *testing.T) {
	v := build(source(t, "a", "a", tool("t"))).View(call.Anonymous, nil)
	at := func(rev wire.Revision, age time.Duration) wire.Raw {
		page, _, err := v.Page(call.Tool, rev, "", since.Add(age))
		if err != nil {
			t.Fatal(err)
		}
		return page.Raw
	}
	if a, b := at(wire.Rev20251125, 0), at(wire.Rev20251125, time.Hour); &a[0] != &b[0] {
		t.Error("a legacy page was encoded twice")
	}
	a := at(wire.Rev20260728, 10*time.Millisecond)
	if b := at(wire.Rev20260728, 90*time.Millisecond); &a[0] != &b[0] {
		t.Error("a modern page was encoded twice")
	}
	for age, want := range map[time.Duration]string{0: "60000", 10 * time.Millisecond: "59900", 20 * time.Second: "40000", time.Minute: "0", time.Hour: "0"} {
		if got := at(wire.Rev20260728, age); !strings.Contains(string(got), `"ttlMs":`+want+`,`) {
			t.Errorf("after %v: %s", age, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { v.Page(call.Tool, wire.Rev20260728, "", since) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestPageBounds(t *testing.T) {
	var items []string
	for i := range 10 {
		items = append(items, tool(fmt.Sprintf("t%d", i)))
	}
	size := len(tool("a__t0"))
	tests := []struct {
		name  string
		opts  Options
		pages int
	}{
		{"by default", Options{}, 1},
		{"items", Options{PageItems: 3}, 4},
		{"items, exactly", Options{PageItems: 5}, 2},
		{"bytes", Options{PageBytes: 4 * (size + 1)}, 3},
		{"every item over the bound", Options{PageBytes: 1}, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Policy = allowAll
			v := Build(tt.opts, []Source{source(t, "a", "a", items...)}).View(call.Anonymous, nil)
			if got := len(v.pages[call.Tool]); got != tt.pages {
				t.Errorf("%d pages, want %d", got, tt.pages)
			}
			if got := names(t, v, call.Tool); len(got) != 10 || got[0] != "a__t0" || got[9] != "a__t9" {
				t.Errorf("all pages: %q", got)
			}
		})
	}
}

// A cursor from one table continues in the next one.
func TestCursorsSurviveANewTable(t *testing.T) {
	numbered := func(upstream string, from, to int) Source {
		var items []string
		for i := from; i < to; i++ {
			items = append(items, tool(fmt.Sprint(i)))
		}
		return source(t, upstream, upstream, items...)
	}
	table := func(sources ...Source) *Table { return Build(Options{Policy: allowAll, PageItems: 3}, sources) }
	old := table(numbered("a", 0, 2), numbered("b", 0, 4), numbered("c", 0, 3))
	first := wire.ValueOf(pageOf(t, old.View(call.Anonymous, nil), wire.Rev20251125, "")).Get("nextCursor").Str()     // after b__0
	second := wire.ValueOf(pageOf(t, old.View(call.Anonymous, nil), wire.Rev20251125, first)).Get("nextCursor").Str() // after b__3
	moved := source(t, "b", "b", tool("new"), tool("0"), tool("1"))
	removed := source(t, "b", "b", tool("1"), tool("2"))
	later := source(t, "b", "b", tool("0"), tool("1"), tool("2"), tool("4"))
	fewer := source(t, "b", "b", tool("7"), tool("8"))
	tests := []struct {
		name   string
		cursor string
		new    *Table
		want   string // the items of the next page
	}{
		{"the item is gone, others have come in its place", second, table(numbered("a", 0, 2), later, numbered("c", 0, 3)), "b__4"},
		{"the item is gone, and the place too", second, table(numbered("a", 0, 2), fewer, numbered("c", 0, 3)), "c__0 c__1"},
		{"same", first, old, "b__1 b__2 b__3"},
		{"the item moved", first, table(numbered("a", 0, 2), moved, numbered("c", 0, 3)), "b__1 c__0"},
		{"the item is gone", first, table(numbered("a", 0, 2), removed, numbered("c", 0, 3)), "b__1"},
		{"all of the upstream's items are gone", first, table(numbered("a", 0, 2), source(t, "b", "b"), numbered("c", 0, 3)), "c__0"},
		{"the upstream is down", first, table(numbered("a", 0, 2), down(numbered("b", 0, 4)), numbered("c", 0, 3)), "c__0"},
		{"the upstream is gone", first, table(numbered("a", 0, 2), numbered("c", 0, 3)), "c__0"},
		{"the upstream and all after it are gone", first, table(numbered("a", 0, 2)), ""},
		{"the upstream moved in the configuration", first, table(numbered("b", 0, 4), numbered("a", 0, 2)), "b__1 b__2"},
		{"items before", first, table(numbered("x", 0, 9), numbered("a", 0, 2), numbered("b", 0, 4)), "b__1 b__2 b__3"},
		{"no upstream", first, table(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.new.View(call.Anonymous, nil)
			before := names(t, v, call.Tool)
			raw := pageOf(t, v, wire.Rev20251125, tt.cursor)
			var got []string
			for el := range wire.ValueOf(raw).Get("tools").Elements() {
				got = append(got, el.Get("name").Str())
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
			if next := wire.ValueOf(raw).Get("nextCursor").Str(); next != "" {
				pageOf(t, v, wire.Rev20251125, next)
			}
			if diff := cmp.Diff(before, names(t, v, call.Tool)); diff != "" {
				t.Errorf("the whole list has changed: %s", diff)
			}
		})
	}
}

// A client goes on with the list of one replica at another one, which has not read an upstream yet, or has read one more. It gets each item that both have
// once, and learns which upstream is missing.
func TestCursorsOfAnotherReplica(t *testing.T) {
	upstreams := []string{"a", "b", "c"}
	sources := []Source{source(t, "a", "a", tool("0"), tool("1")), source(t, "b", "b", tool("0"), tool("1"), tool("2"), tool("3")), source(t, "c", "c", tool("0"), tool("1"))}
	table := func(missing int) *Table {
		all := slices.Clone(sources)
		if missing >= 0 {
			all[missing] = down(all[missing])
		}
		return Build(Options{Policy: allowAll, PageItems: 3}, all)
	}
	for from := -1; from < len(sources); from++ {
		for to := -1; to < len(sources); to++ {
			here, there := table(from).View(call.Anonymous, nil), table(to).View(call.Anonymous, nil)
			seen, told := make(map[string]int), make(map[string]bool)
			cursor := ""
			for v := here; ; v = there {
				page := wire.ValueOf(pageOf(t, v, wire.Rev20251125, cursor))
				for el := range page.Get("tools").Elements() {
					seen[el.Get("name").Str()]++
				}
				for el := range page.Get("_meta", MetaUnavailable).Elements() {
					told[el.Get("upstream").Str()] = true
				}
				if cursor = page.Get("nextCursor").Str(); cursor == "" {
					break
				}
			}
			for i, upstream := range upstreams {
				if missing := i == from || i == to; missing != told[upstream] {
					t.Errorf("from the replica without %d to that without %d: %s is missing: %t, the client is told: %v", from, to, upstream, missing, told)
				}
				for _, name := range names(t, table(-1).View(call.Anonymous, nil), call.Tool) {
					if n := seen[name]; n > 1 || n == 0 && i != from && i != to && strings.HasPrefix(name, upstream+"__") {
						t.Errorf("from the replica without %d to that without %d: %s comes %d times", from, to, name, n)
					}
				}
			}
		}
	}
}

func TestBadCursors(t *testing.T) {
	v := Build(Options{Policy: allowAll, PageItems: 1}, []Source{source(t, "a", "a", tool("1"), tool("2"), prompt("1"))}).View(call.Anonymous, nil)
	good := v.after(call.Tool, 0).String()
	for name, cursor := range map[string]string{
		"text": "page 2", "number": "1", "of another list": v.after(call.Prompt, 0).String(), "cut off": good[:6], "padded": good + "=",
		"long": strings.Repeat("A", 10000), "another version": "AgA" + good[3:],
		"of a long name": cursor{kind: call.Tool, upstream: strings.Repeat("a", 200)}.String(),
	} {
		_, _, err := v.Page(call.Tool, wire.Rev20251125, cursor, since)
		if err == nil || err.Error() != "invalid cursor: it must be the nextCursor of an earlier page of the same list (-32602)" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A cursor of one profile is no cursor in another: the answer is that for a made-up one. The
// cursors of the default profile have one form, whether or not it selects.
func TestCursorsBelongToAProfile(t *testing.T) {
	whole := Build(Options{Policy: allowAll, PageItems: 1}, []Source{source(t, "files", "files", tool("1"), tool("2"), tool("3"))})
	views := map[string]*View{"": whole.View(call.Anonymous, nil)}
	for _, name := range []string{"coding", "ops", profile.Default} {
		views[name] = whole.ForProfile(profileOf(t, profile.Options{Name: name})).View(call.Anonymous, nil)
	}
	for of, from := range views {
		cursor := wire.ValueOf(pageOf(t, from, wire.Rev20251125, "")).Get("nextCursor").Str()
		for at, v := range views {
			_, _, err := v.Page(call.Tool, wire.Rev20251125, cursor, since)
			same := of == at || strings.TrimPrefix(of+at, profile.Default) == "" // both are the default profile
			switch {
			case same && err != nil:
				t.Errorf("a cursor of %q in %q: %v", of, at, err)
			case !same && (err == nil || err.Error() != "invalid cursor: it must be the nextCursor of an earlier page of the same list (-32602)"):
				t.Errorf("a cursor of %q in %q: %v", of, at, err)
			}
		}
		if other, _ := parseCursor("coding", call.Tool, cursor); of == "coding" && other.String() != cursor {
			t.Errorf("parsed and written again: %q, want %q", other, cursor)
		}
	}
	longest := cursor{profile: "coding", kind: call.Tool, part: 1 << 31, ordinal: 1 << 31, upstream: strings.Repeat("u", 64)}
	if got, ok := parseCursor("coding", call.Tool, longest.String()); !ok || got != longest {
		t.Errorf("a long cursor is %+v, %v", got, ok)
	}
}

// A client that sends any made-up cursor gets a page or an error.
func FuzzCursor(f *testing.F) {
	v := Build(Options{Policy: allowAll, PageItems: 2}, []Source{source(f, "a", "a", tool("1"), tool("2"), tool("3")), source(f, "b", "b", tool("1"))}).View(call.Anonymous, nil)
	for i := range 4 {
		f.Add(v.after(call.Tool, i).String())
	}
	f.Add(cursor{kind: call.Tool, part: 1 << 31, ordinal: 1 << 31, upstream: "b"}.String())
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		page, _, err := v.Page(call.Tool, wire.Rev20260728, text, since)
		if err == nil && wire.Check(page.Raw, wire.Limits{}, wire.Strict) != nil {
			t.Errorf("cursor %q: %s", text, page.Raw)
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	tbl := Build(Options{Policy: allowAll, PageItems: 2}, []Source{source(t, "a", "a", tool("1"), tool("2"), tool("3"))})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			v := tbl.View(call.Anonymous, nil)
			if got := names(t, v, call.Tool); len(got) != 3 {
				t.Errorf("listed: %q", got)
			}
			v.Page(call.Tool, wire.Rev20260728, "", since.Add(time.Duration(i)*time.Second))
			v.SimilarNames(call.Tool, "a_1")
		})
	}
	wg.Wait()
}
