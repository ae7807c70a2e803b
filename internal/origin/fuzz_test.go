package origin

import (
	"net/http"
	"net/url"
	"testing"
)

// A page of another host may send no request, however the headers are spelled.
func FuzzRefusal(f *testing.F) {
	f.Add("localhost:8080", "http://localhost.evil.example")
	f.Add("127.0.0.1", "null")
	f.Add("[::1]:80", "http://[::1].evil.example:80")
	f.Add("evil.example", "https://u@127.0.0.1@evil.example")
	guard := New(Options{Loopback: true})
	f.Fuzz(func(t *testing.T, host, origin string) {
		if guard.Refusal(&http.Request{Host: host, Header: http.Header{"Origin": {origin}}}) != "" {
			return
		}
		u, err := url.Parse(origin)
		if err != nil || !IsLoopback(u.Hostname()) && !IsLoopback(hostName(u.Host)) {
			t.Errorf("the host %q serves pages of %q", host, origin)
		}
		if !IsLoopbackHost(host) {
			t.Errorf("the host %q is served on loopback", host)
		}
	})
}
