package config

import (
	"fmt"
	"testing"
)

func TestCheckLoops(t *testing.T) {
	const (
		listen = "is the address that this gateway listens on (listen); " + ownURLHint
		admin  = "is the address of this gateway's own health and metrics (admin.listen); " + ownURLHint
		public = "is this gateway's own public_url; " + ownURLHint
	)
	for _, test := range []struct{ listen, public, url, want string }{
		{"127.0.0.1:8080", "", "http://127.0.0.1:8080/mcp", listen},
		{"127.0.0.1:8080", "", "http://127.0.0.1:8080/sse", listen},
		{"127.0.0.1:8080", "", "http://localhost:8080/mcp", listen},
		{"127.0.0.1:8080", "", "http://LOCALHOST.:8080", listen},
		{"127.0.0.1:8080", "", "http://[::1]:8080/mcp", listen},
		{"127.0.0.1:8080", "", "http://[::ffff:127.0.0.1]:8080/mcp", listen},
		{"127.0.0.1:8080", "", "http://0.0.0.0:8080/mcp", listen},
		{"localhost:8080", "", "http://127.0.0.1:8080/mcp", listen},
		{"[::1]:80", "", "http://localhost/mcp", listen},
		{"0.0.0.0:8080", "", "http://127.8.8.8:8080/mcp", listen},
		{":8080", "", "http://localhost:8080/mcp", listen},
		{"192.168.0.1:8080", "", "http://192.168.0.1:8080/mcp", listen},
		{"127.0.0.1:8080", "", "http://127.0.0.1:9090/mcp", admin},
		{"127.0.0.1:8080", "https://gw.example.com", "https://gw.example.com/mcp", public},
		{"127.0.0.1:8080", "https://gw.example.com", "https://GW.example.com:443/sse", public},
		{"127.0.0.1:8080", "https://example.com/gw", "https://example.com/gw/mcp/team", public},

		{"127.0.0.1:8080", "", "http://127.0.0.1:8081/mcp", ""},
		{"127.0.0.1:8080", "", "http://127.0.0.2:8080/mcp", ""},
		{"127.0.0.1:8080", "", "http://example.com:8080/mcp", ""},
		{"192.168.0.1:8080", "", "http://127.0.0.1:8080/mcp", ""},
		{"0.0.0.0:8080", "", "http://192.168.0.1:8080/mcp", ""},
		{"127.0.0.1:0", "", "http://127.0.0.1:0/mcp", ""},
		{"127.0.0.1:8080", "https://example.com/gw", "https://example.com/other/mcp", ""},
		{"127.0.0.1:8080", "https://example.com", "https://example.com/mcpserver", ""},
		{"127.0.0.1:8080", "https://example.com", "http://example.com/mcp", ""},
	} {
		text := fmt.Sprintf("listen: %q\npublic_url: %q\nauth: {insecure: true}\nallowed_hosts: [gateway]\nupstreams:\n  a: {url: %q}\n", test.listen, test.public, test.url)
		c, err := Parse("gateway.yaml", []byte(text), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := c.CheckLoops(); err != nil {
			got = err.Error()
		}
		want := test.want
		if want != "" {
			want = "gateway.yaml:6:12: upstreams.a.url: " + want
		}
		if got != want {
			t.Errorf("%s behind %s, %s:\n got %s\nwant %s", test.url, test.listen, test.public, got, want)
		}
	}
}

// An upstream that a flag or a key disables is not a loop.
func TestCheckLoopsOfEnabledUpstreams(t *testing.T) {
	c, err := Parse("gateway.yaml", []byte("upstreams:\n  a: {url: http://localhost:8080/mcp}\n  b: {url: http://localhost:7000/mcp, disabled: true}\n"), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if c.CheckLoops() == nil {
		t.Error("a loop at the default address was accepted")
	}
	if err := c.Override("127.0.0.1:7000", ""); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckLoops(); err != nil {
		t.Errorf("with another address and a disabled upstream: %v", err)
	}
}
