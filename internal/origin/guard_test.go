package origin

import (
	"net/http"
	"testing"
)

func TestGuard(t *testing.T) {
	named := Options{Hosts: []string{"Gateway.example", "other.example:8443"}, PublicURL: "https://public.example"}
	ported := Options{Origins: []string{"HTTP://page.example:80"}, CheckHost: true, PublicURL: "https://public.example:443/mcp"}
	for _, tt := range []struct {
		name         string
		o            Options
		host, origin string
		refused      bool
	}{
		{"loopback", Options{Loopback: true}, "127.0.0.1:8080", "", false},
		{"loopback by name", Options{Loopback: true}, "LocalHost.:8080", "", false},
		{"loopback in version 6", Options{Loopback: true}, "[::1]", "", false},
		{"loopback mapped into version 6", Options{Loopback: true}, "[::ffff:127.0.0.1]:80", "", false},
		{"rebound", Options{Loopback: true}, "page.example", "", true},
		{"a name that begins like an address", Options{Loopback: true}, "127.0.0.1.page.example", "", true},
		{"another number", Options{Loopback: true, Numbers: true}, "10.0.0.1", "", true},
		{"no host", Options{Loopback: true}, "", "", true},
		{"a page of this machine", Options{Loopback: true}, "localhost:1", "http://localhost:3000", false},
		{"a page from elsewhere", Options{Loopback: true}, "localhost:1", "https://page.example", true},
		{"a sandboxed page", Options{Loopback: true}, "localhost:1", "null", true},
		{"off loopback hosts are not checked", Options{}, "page.example", "", false},
		{"but if they are to be", Options{CheckHost: true}, "page.example", "", true},
		{"or if names are known", named, "page.example", "", true},
		{"a name", named, "gateway.EXAMPLE:1", "", false},
		{"a name with its port", named, "other.example:8443", "", false},
		{"a name with another port", named, "other.example:8444", "", true},
		{"the public name", named, "public.example", "", false},
		{"the public name with a port", ported, "public.example", "", false},
		{"the public name with the port said", ported, "public.example:443", "", false},
		{"a page of the public name", ported, "public.example", "https://public.example", false},
		{"a page that is named with a port", ported, "public.example", "http://page.example", false},
		{"the same page by another scheme", ported, "public.example", "https://page.example", true},
		{"a number", named, "10.0.0.1", "", true},
		{"a number that counts", Options{CheckHost: true, Numbers: true}, "10.0.0.1:9090", "", false},
		{"a number of version 6", Options{CheckHost: true, Numbers: true}, "[fd00::1]:9090", "", false},
		{"no number", Options{CheckHost: true, Numbers: true}, "10.0.0.1.page.example", "", true},
	} {
		r := &http.Request{Host: tt.host, Header: http.Header{}}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if got := New(tt.o).Refuses(r); (got != "") != tt.refused {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
