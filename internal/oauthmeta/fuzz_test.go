package oauthmeta

import (
	"net/url"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// Metadata of another resource or issuer is refused.
func FuzzMetadata(f *testing.F) {
	f.Add("https://h.example/mcp", []byte(`{"resource":"https://h.example/mcp","authorization_servers":["https://idp.example"]}`))
	f.Add("https://h.example:443/a/b", []byte(`{"resource":"https://H.example/a","authorization_servers":["x",1],"scopes_supported":"s"}`))
	f.Add("https://idp.example/t", []byte(`{"issuer":"https://idp.example/t","token_endpoint":1,"code_challenge_methods_supported":["S256"]}`))
	f.Fuzz(func(t *testing.T, at string, doc []byte) {
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || wire.Check(doc, wire.Limits{Depth: 100}, wire.Lenient) != nil {
			return
		}
		if r, err := ParseResource(u, wire.ValueOf(doc)); err == nil {
			named, err := url.Parse(r.Resource)
			if err != nil || !strings.EqualFold(Origin(named), Origin(u)) || len(r.Servers) == 0 {
				t.Errorf("%s: %s is read as %+v", at, doc, r)
			}
			if json := r.JSON(); wire.Check(json, wire.Limits{Depth: 10}, wire.Strict) != nil {
				t.Errorf("the document is %s", json)
			}
		}
		if s, err := ParseServer(at, wire.ValueOf(doc)); err == nil && s.Issuer != at {
			t.Errorf("%s: %s is read as %+v", at, doc, s)
		}
		for _, well := range append(ResourceURLs(u), ServerURLs(u)...) {
			if well.Host != u.Host || well.Scheme != u.Scheme {
				t.Errorf("%s: the metadata would be read from %s", at, well)
			}
		}
	})
}
