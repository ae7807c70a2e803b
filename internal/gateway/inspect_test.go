package gateway

import (
	"net"
	"testing"

	"mcpgateway/internal/upstream/connector"
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
