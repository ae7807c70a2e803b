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
		{"loopback in IPv6", Options{Loopback: true}, "[::1]", "", false},
		{"loopback mapped into IPv6", Options{Loopback: true}, "[::ffff:127.0.0.1]:80", "", false},
		{"a rebound name", Options{Loopback: true}, "page.example", "", true},
		{"a name that begins like an address", Options{Loopback: true}, "127.0.0.1.page.example", "", true},
		{"another IP address", Options{Loopback: true, IPHosts: true}, "10.0.0.1", "", true},
		{"no host", Options{Loopback: true}, "", "", true},
		{"a page of this machine", Options{Loopback: true}, "localhost:1", "http://localhost:3000", false},
		{"a page from elsewhere", Options{Loopback: true}, "localhost:1", "https://page.example", true},
		{"a sandboxed page", Options{Loopback: true}, "localhost:1", "null", true},
		{"hosts are not checked off loopback", Options{}, "page.example", "", false},
		{"hosts are checked off loopback", Options{CheckHost: true}, "page.example", "", true},
		{"an unknown name", named, "page.example", "", true},
		{"a known name", named, "gateway.EXAMPLE:1", "", false},
		{"a known name with its port", named, "other.example:8443", "", false},
		{"a known name with another port", named, "other.example:8444", "", true},
		{"the public name", named, "public.example", "", false},
		{"the public name with a port", ported, "public.example", "", false},
		{"the public name with the default port", ported, "public.example:443", "", false},
		{"a page of the public name", ported, "public.example", "https://public.example", false},
		{"a page that is configured with a port", ported, "public.example", "http://page.example", false},
		{"the same page by another scheme", ported, "public.example", "https://page.example", true},
		{"an IP address", named, "10.0.0.1", "", true},
		{"an allowed IP address", Options{CheckHost: true, IPHosts: true}, "10.0.0.1:9090", "", false},
		{"an allowed IPv6 address", Options{CheckHost: true, IPHosts: true}, "[fd00::1]:9090", "", false},
		{"a name that looks like an IP address", Options{CheckHost: true, IPHosts: true}, "10.0.0.1.page.example", "", true},
	} {
		r := &http.Request{Host: tt.host, Header: http.Header{}}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if got := New(tt.o).Refusal(r); (got != "") != tt.refused {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// The log has no more of a malformed Origin than the part that an origin has.
func TestShown(t *testing.T) {
	for value, want := range map[string]string{
		"https://page.example":      "https://page.example",
		"HTTP://page.example:8080":  "HTTP://page.example:8080",
		"http://[::1]:80":           "http://[::1]:80",
		"null":                      "null",
		"file://":                   "file://",
		"chrome-extension://abcdef": "chrome-extension://abcdef",
		"https://u:s3cret@page.example/?token=s3cret": "https://page.example (malformed)",
		"https://page.example/":                       "https://page.example (malformed)",
		"https://page.example#s3cret":                 "https://page.example (malformed)",
		"s3cret":                                      "(malformed)",
		"data:s3cret":                                 "(malformed)",
		"https://page.example:s3cret":                 "(malformed)",
		"":                                            "(malformed)",
	} {
		if got := Shown(value); got != want {
			t.Errorf("Shown(%q) = %q, want %q", value, got, want)
		}
	}
}
