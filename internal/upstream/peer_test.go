package upstream

import (
	"net/url"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/transport/httpconn"
)

// Spans name the server of an upstream, and never the user information in its URL.
func TestPeer(t *testing.T) {
	over := func(text string) Server {
		at, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return Server{HTTP: &httpconn.Config{URL: at}}
	}
	two := over("http://a.example:1")
	two.URLs = make([]URL, 2)
	for name, tt := range map[string]struct {
		server Server
		want   *call.Peer
	}{
		"a program":         {Server{Stdio: &process.Config{}}, &call.Peer{}},
		"a port":            {over("http://u:secret@a.example:8080/mcp?key=secret"), &call.Peer{OverHTTP: true, Address: "a.example", Port: 8080}},
		"the port of https": {over("https://a.example/mcp"), &call.Peer{OverHTTP: true, Address: "a.example", Port: 443}},
		"the port of http":  {over("http://[::1]/mcp"), &call.Peer{OverHTTP: true, Address: "::1", Port: 80}},
		"one of several":    {two, &call.Peer{OverHTTP: true}},
		"in this process":   {Server{}, nil},
	} {
		got := (&Options{Server: tt.server}).peer()
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
