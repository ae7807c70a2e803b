package upstream

import (
	"errors"
	"testing"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/wire"
)

// dataOf returns the data of the error that Do returned.
func dataOf(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != wire.CodeInternal {
		t.Fatalf("error %v, want one with code %d", err, wire.CodeInternal)
	}
	return string(e.Data)
}

func TestOptionsWithoutTransport(t *testing.T) {
	want := "upstream: exactly one of Stdio, Pipe and HTTP must be set"
	if err := newConnector(Options{Name: "x"}).Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
	both := Options{Name: "x", Server: Server{Stdio: &process.Config{Command: "x"}, Pipe: (&fakeServer{}).pipe}}
	if err := newConnector(both).Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run: %v, want %s", err, want)
	}
}
