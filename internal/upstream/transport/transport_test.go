package transport

import (
	"net/url"
	"testing"

	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
)

// Each transport has a dialer, and a name that is not in the table has none.
func TestNew(t *testing.T) {
	s := Settings{Program: &process.Config{Command: "x"}, HTTP: &httpconn.Config{URL: new(url.URL)}}
	for _, kind := range []Kind{Stdio, InProcess, Streamable, SSE, Auto} {
		if d, err := New(kind, &protocol.Config{}, s); d == nil || err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if d, err := New("carrier-pigeon", &protocol.Config{}, s); d != nil || err == nil {
		t.Error("an unknown transport has a dialer")
	}
}
