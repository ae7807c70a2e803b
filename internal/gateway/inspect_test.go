package gateway

import (
	"net"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// A server that prints to its standard error while it starts has no error yet.
func TestLastErrorIsNoneWhileConnecting(t *testing.T) {
	// The server answers nothing, so that the connector has nothing to say meanwhile.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	g, end := start(t, `upstreams: {files: {url: "http://`+silent.Addr().String()+`/mcp", start: lazy}}`, false)
	defer end()
	c := g.generation.Load().entries[0].conn
	g.observe(c, connector.Snapshot{Name: "files", State: connector.Connecting, Advice: "the last line of its standard error is \"running\""})
	if e := g.Upstreams()[0].LastError; e != nil {
		t.Errorf("a first attempt that goes on counts as the error %q", e.Reason)
	}
	g.observe(c, connector.Snapshot{Name: "files", State: connector.Down, Reason: "it ended"})
	if e := g.Upstreams()[0].LastError; e == nil || e.Reason != "it ended" {
		t.Errorf("last error %+v", e)
	}
}

// The status says how many items the keys of an upstream hide. Reloads change these keys without a new connection, and the
// counts follow. Rules hide nothing, since they look at the principal, and a tool that a pin hides is not counted twice.
func TestCountsOfHiddenItems(t *testing.T) {
	server := newScripted(t, "kept")
	configured := func(more string) string {
		return "upstreams: {a: " + server.entry(more) + "}\npolicy: {rules: [{name: r, effect: deny}]}\nprofiles: {p: {tools: [a__*]}}\n"
	}
	g, _ := start(t, configured(""), false)
	polltest.Until(t, "the tool is listed", func() bool { return g.router.Routes().Table.Counts()[call.Tool] == 1 })
	has := func(more string, items, hidden, inProfiles int) {
		t.Helper()
		s, err := g.Status()
		if err != nil {
			t.Fatal(err)
		}
		u := s.Upstreams[0]
		if u.Items["tools"] != items || u.HiddenItems["tools"] != hidden || (u.HiddenItems == nil) != (hidden == 0) {
			t.Errorf("with %q: %v items, %v hidden", more, u.Items, u.HiddenItems)
		}
		for _, p := range s.Profiles {
			if p.Items["tools"] != inProfiles {
				t.Errorf("with %q: the profile %s has %v", more, p.Name, p.Items)
			}
		}
	}
	has("", 1, 0, 1)
	for _, c := range []struct {
		more   string
		hidden int
	}{
		{", tools: {deny: [kept]}", 1}, {"", 0}, {", tools: {allow: [other]}", 1}, {", tools: {override: {kept: {hidden: true}}}", 1},
		{", tools: {allow: [kept]}", 0}, {", pin: true", 0},
	} {
		if _, err := reloaded(t, g, configured(c.more)); err != nil {
			t.Fatal(err)
		}
		has(c.more, 1, c.hidden, 1-c.hidden)
	}
	if n := server.opened.Load(); n != 1 {
		t.Errorf("%d sessions were opened", n)
	}
	if _, err := pinStore(t, g.cfg.StateDir).Accept("a", []wire.Raw{wire.Raw(`{"name":"kept","description":"good","inputSchema":{"type":"object"}}`)}, nil, false); err != nil {
		t.Fatal(err)
	}
	g.requestRebuild()
	polltest.Until(t, "the pin hides the tool", func() bool { return g.Upstreams()[0].Items[call.Tool] == 0 })
	const both = ", pin: true, tools: {deny: [kept]}"
	if _, err := reloaded(t, g, configured(both)); err != nil {
		t.Fatal(err)
	}
	has(both, 0, 0, 0)
}
