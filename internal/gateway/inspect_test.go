package gateway

import (
	"testing"

	"mcpgateway/internal/upstream/connector"
)

// A server that prints to its standard error while it starts has no error yet.
func TestLastErrorIsNoneWhileConnecting(t *testing.T) {
	g, end := start(t, `upstreams: {files: {url: "http://127.0.0.1:1/mcp", start: lazy}}`, false)
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
