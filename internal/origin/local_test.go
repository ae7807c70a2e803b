package origin

import (
	"net/http"
	"testing"
)

func TestIsLocal(t *testing.T) {
	for _, tt := range []struct {
		name, from, header string
		local              bool
	}{
		{name: "a local program", from: "127.0.0.1:4711", local: true},
		{name: "any loopback address", from: "127.8.9.1:4711", local: true},
		{name: "IPv6", from: "[::1]:4711", local: true},
		{name: "IPv6 with a zone", from: "[::1%lo]:4711", local: true},
		{name: "IPv4 mapped into IPv6", from: "[::ffff:127.0.0.1]:4711", local: true},
		{name: "a header that programs send", from: "127.0.0.1:4711", header: "X-Request-Id", local: true},
		{name: "another machine", from: "192.0.2.7:4711"},
		{name: "another machine, IPv6", from: "[fe80::1%eth0]:4711"},
		{name: "no address", from: ""},
		{name: "a pipe", from: "@"},
		{name: "RFC 7239", from: "127.0.0.1:4711", header: "forwarded"},
		{name: "RFC 9110", from: "127.0.0.1:4711", header: "via"},
		{name: "the address of the client", from: "127.0.0.1:4711", header: "x-forwarded-for"},
		{name: "the host", from: "[::1]:4711", header: "X-Forwarded-Host"},
		{name: "the scheme", from: "127.0.0.1:4711", header: "X-Forwarded-Proto"},
		{name: "the user", from: "127.0.0.1:4711", header: "X-Forwarded-User"},
		{name: "nginx", from: "127.0.0.1:4711", header: "X-Real-IP"},
		{name: "Cloudflare", from: "127.0.0.1:4711", header: "CF-Connecting-IP"},
		{name: "Akamai", from: "127.0.0.1:4711", header: "True-Client-IP"},
		{name: "Envoy", from: "127.0.0.1:4711", header: "x-envoy-external-address"},
	} {
		r := &http.Request{RemoteAddr: tt.from, Header: http.Header{}}
		if tt.header != "" {
			r.Header.Set(tt.header, "")
		}
		if got := IsLocal(r); got != tt.local {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.local)
		}
	}
}
