package gateway

import (
	"strings"
	"testing"
)

// A reload turns search on and off for the clients that are there: lists change, connections stay,
// and what a search finds follows the configuration.
func TestReloadOfSearch(t *testing.T) {
	server, other := newScripted(t, "kept"), newScripted(t, "shown")
	upstreams := "upstreams: {a: " + server.entry("") + ", b: " + other.entry(", tags: [pictures]") + "}\n"
	g, _ := start(t, upstreams, false)
	search := func(query string) string {
		t.Helper()
		_, answer := post(t, g, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_tools","arguments":{"query":"`+query+`"}}}`)
		return answer
	}
	if answer := search("kept"); !strings.Contains(answer, "unknown tool") {
		t.Errorf("a profile without search: %s", answer)
	}
	callOf(t, g, "a__kept")
	opened := server.opened.Load()
	for _, step := range []struct {
		profile         string
		listed, hidden  string
		query, found    string
		called, refused string
	}{
		{"{catalog: search}", `"call_tool"`, `"a__kept"`, "kept", `"name":"a__kept"`, "a__kept", ""},
		{"{catalog: search}", `"call_tool"`, `"a__kept"`, "pictures", `"name":"b__shown"`, "a__kept", ""},
		{"{catalog: search, pinned: [a__kept], split: true}", `"a__kept"`, `"call_tool"`, "kept", `"call_with":"call_destructive_tool"`, "a__kept", ""},
		{"{catalog: search, upstreams: [b]}", `"call_tool"`, `"b__shown"`, "kept", `"total":0`, "b__shown", "a__kept"},
		{"{}", `"a__kept"`, `"call_tool"`, "", "unknown tool", "a__kept", ""},
	} {
		if _, err := reloaded(t, g, upstreams+"profiles: {default: "+step.profile+"}"); err != nil {
			t.Fatal(err)
		}
		if list := listOf(t, g); !strings.Contains(list, `"name":`+step.listed) || strings.Contains(list, `"name":`+step.hidden) {
			t.Errorf("%s: the list is %s", step.profile, list)
		}
		if answer := search(step.query); !strings.Contains(answer, step.found) {
			t.Errorf("%s: a search for %q finds %s", step.profile, step.query, answer)
		}
		if answer := callOf(t, g, step.called); !strings.Contains(answer, "from ") {
			t.Errorf("%s: a direct call of %s: %s", step.profile, step.called, answer)
		}
		if step.refused != "" {
			if answer := callOf(t, g, step.refused); !strings.Contains(answer, "unknown tool") {
				t.Errorf("%s: a direct call of %s: %s", step.profile, step.refused, answer)
			}
		}
	}
	if now := server.opened.Load(); now != opened {
		t.Errorf("%d sessions were opened, want %d", now, opened)
	}
}
