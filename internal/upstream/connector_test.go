package upstream

import (
	"testing"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/upstreamtest"
)

func TestOptionsWithoutTransport(t *testing.T) {
	want := "upstream: exactly one of Stdio, Pipe and HTTP must be set"
	if err := newConnector(Options{Name: "x"}).Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
	both := Options{Name: "x", Server: Server{Stdio: &process.Config{Command: "x"}, Pipe: (&upstreamtest.Server{}).Pipe}}
	if err := newConnector(both).Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
}
