package catalog

import (
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/wire"
)

// withOwn returns the table of a profile with own items.
func withOwn(t testing.TB, opts Options, own []string, sources ...Source) *Table {
	t.Helper()
	o := profile.Options{}
	for kind, items := range source(t, "x", "", own...).Items {
		for _, raw := range items {
			o.Own = append(o.Own, profile.OwnItem{Kind: call.Kind(kind), Definition: raw})
		}
	}
	opts.Profile = profileOf(t, o)
	return Build(opts, sources)
}

var openOptions = Options{Policy: allowAll}

// The gateway's own items come first and win every name, whatever the order of prefixes is.
func TestOwnItemsWinNames(t *testing.T) {
	tbl := withOwn(t, openOptions, []string{tool("call_tool"), tool("search_tools"), template("kept://{id}")},
		source(t, "call", "call", tool("x")),
		source(t, "open", "", tool("call_tool"), tool("other"), template("kept://{id}"), template("other://{id}")),
	)
	wantNames(t, tbl, call.Tool, "call_tool", "search_tools", "call__x", "open__call_tool", "other")
	wantNames(t, tbl, call.Template, "kept://{id}", "other://{id}")
	v := tbl.View(call.Anonymous, nil)
	for _, public := range []string{"kept://1", "kept://1?range=0-9"} {
		if target, ok := v.Resolve(call.Resource, public); !ok || !target.Part.Own() || target.Native != public {
			t.Errorf("%s resolves to %+v, %v", public, target, ok)
		}
	}
	if target, ok := v.Resolve(call.Tool, "open__call_tool"); !ok || target.Part.Upstream() != "open" || target.Native != "call_tool" ||
		!strings.Contains(string(target.Entry.Raw), `"_meta":{"mcpgateway/native":"call_tool"}`) {
		t.Errorf("the upstream's call_tool resolves to %+v, %v", target, ok)
	}
	if got := v.Parts(); len(got) != 2 || len(tbl.Parts()) != 2 || tbl.Counts()[call.Tool] != 3 {
		t.Errorf("the gateway counts as an upstream: %d parts of the view, %d of the table, %v items", len(got), len(tbl.Parts()), tbl.Counts())
	}
}

// Policy does not decide about own items, and shows no other item because of them.
func TestOwnItemsAreVisibleToAll(t *testing.T) {
	tbl := withOwn(t, Options{Policy: policy.MustNew(policy.Options{})}, []string{tool("call_tool")}, source(t, "a", "a", tool("t"), resource("x:y")))
	wantNames(t, tbl, call.Tool, "call_tool")
	wantNames(t, tbl, call.Resource)
	v := tbl.View(call.Anonymous, nil)
	if len(v.Parts()) != 0 || v.Instructions() != "" {
		t.Errorf("the view has %d parts, instructions %q", len(v.Parts()), v.Instructions())
	}
	if _, ok := v.Resolve(call.Resource, "kept://1"); ok {
		t.Error("a URI without an own template resolves")
	}
}

// Own items do not count for the freshness of lists, and are listed while every upstream is down.
func TestOwnItemsAreAlwaysUp(t *testing.T) {
	private := source(t, "a", "a", tool("t"))
	private.Freshness.Private = true
	page := pageOf(t, withOwn(t, openOptions, []string{tool("call_tool")}, private).View(call.Anonymous, nil), wire.Rev20260728, "")
	if v := wire.ValueOf(page); string(v.Get("ttlMs").Raw()) != "60000" || !v.Get("cacheScope").IsString("private") {
		t.Errorf("the freshness is not that of the upstream: %s", page)
	}
	v := withOwn(t, openOptions, []string{tool("call_tool")}, down(source(t, "a", "a", tool("t")))).View(call.Anonymous, nil)
	page = pageOf(t, v, wire.Rev20260728, "")
	if v := wire.ValueOf(page); string(v.Get("ttlMs").Raw()) != "0" || !strings.Contains(string(page), "call_tool") || !strings.Contains(string(page), MetaUnavailable) {
		t.Errorf("while the upstream is down: %s", page)
	}
	if c := string(v.Capabilities()); !strings.Contains(c, `"tools"`) {
		t.Errorf("capabilities: %s", c)
	}
}

func TestOwnItemsAddCapabilities(t *testing.T) {
	upstream := source(t, "a", "a", prompt("p"))
	upstream.Capabilities = wire.Raw(`{"prompts":{}}`)
	for want, items := range map[string][]string{
		`{"prompts":{"listChanged":true},"logging":{}}`:                                                               nil,
		`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"logging":{}}`:                                  {tool("call_tool")},
		`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true},"logging":{}}`: {tool("call_tool"), template("kept://{id}")},
	} {
		if got := string(withOwn(t, openOptions, items, upstream).View(call.Anonymous, nil).Capabilities()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A cursor after an own item leads on, also in a table without own items.
func TestCursorsPassOwnItems(t *testing.T) {
	upstream := source(t, "a", "a", tool("t"), tool("u"))
	opts := Options{Policy: allowAll, PageItems: 1}
	with := withOwn(t, opts, []string{tool("call_tool"), tool("search_tools")}, upstream)
	if got := names(t, with.View(call.Anonymous, nil), call.Tool); !slices.Equal(got, []string{"call_tool", "search_tools", "a__t", "a__u"}) {
		t.Errorf("page by page: %q", got)
	}
	cursor := wire.ValueOf(pageOf(t, with.View(call.Anonymous, nil), wire.Rev20251125, "")).Get("nextCursor").Str()
	page := pageOf(t, withOwn(t, opts, nil, upstream).View(call.Anonymous, nil), wire.Rev20251125, cursor)
	if got := wire.ValueOf(page).Get("tools"); !strings.Contains(string(got.Raw()), "a__t") {
		t.Errorf("in a table without own items the cursor leads to %s", page)
	}
}
