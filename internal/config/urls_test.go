package config

import (
	"strings"
	"testing"
)

// urls takes the place of url, and every URL is checked like one.
func TestURLs(t *testing.T) {
	u := parsed(t, "upstreams: {a: {urls: ['https://one.test/mcp?key=secret', 'https://two.test/mcp']}}").Upstreams[0]
	if u.URL != "https://one.test/mcp?key=secret" || len(u.AllURLs()) != 2 || u.Transport != TransportAuto {
		t.Errorf("URL %q, all %q, transport %s", u.URL, u.AllURLs(), u.Transport)
	}
	one := parsed(t, "upstreams: {a: {url: 'https://one.test/mcp?key=secret'}}").Upstreams[0]
	if u.ConnectionHash() == one.ConnectionHash() {
		t.Error("a further URL does not change the connection")
	}
	c := parsed(t, "listen: 127.0.0.1:8080\nupstreams: {a: {urls: ['https://one.test/mcp', 'http://127.0.0.1:8080/mcp']}}")
	if err := c.CheckLoops(); err == nil || !strings.Contains(err.Error(), "upstreams.a.urls") {
		t.Errorf("a URL of the gateway itself: %v", err)
	}
	for text, want := range map[string]string{
		"{url: 'https://a.test', urls: ['https://b.test']}": "contradicts url",
		"{command: x, urls: ['https://b.test']}":            "command or url, not both",
		"{urls: ['https://b.test', 'https://b.test']}":      "one URL twice",
		"{urls: ['https://b.test', 'b.test']}":              "must be an absolute http or https URL",
		"{urls: []}":                                        "is empty",
		"{urls: ['https://b.test', 'http://c.test'], auth: {kind: client-credentials, issuer: 'https://i.test', client_id: x, client_secret: yyyyyy}}": "unprotected",
	} {
		_, err := Parse("gateway.yaml", []byte("upstreams: {a: "+text+"}"), func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
