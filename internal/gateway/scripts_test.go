package gateway

import (
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// A script that runs while the catalog changes sees the new one.
func TestScriptsSeeTheCatalogOfNow(t *testing.T) {
	g := newIdleGateway(t, "upstreams: {files: {command: cat}}\nprofiles: {default: {scripts: true}}")
	tools := g.ownTools()
	sees := func(tool string) bool {
		_, ok := tools.View(&call.Call{Principal: call.Anonymous, Client: &call.Client{Key: "c", Revision: wire.Rev20251125}}).Resolve(call.Tool, tool)
		return ok
	}
	set := func(tool string) {
		s := connector.Snapshot{
			State: connector.Ready, Settled: true, Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{}}`), Since: time.Now(),
			Catalog: connector.Catalog{Tools: []wire.Raw{wire.Raw(`{"name":"` + tool + `","inputSchema":{"type":"object"}}`)}},
		}
		s.Name = "files"
		g.setSnapshot(s)
		g.rebuild(t.Context(), time.Now())
	}
	if set("read"); !sees("files__read") {
		t.Error("the tool is not there")
	}
	if set("write"); sees("files__read") || !sees("files__write") {
		t.Error("the catalog is an old one")
	}
}
