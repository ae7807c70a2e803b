package oauthmeta

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/wire"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// documents answers with the documents at these URLs, and remembers the URLs.
type documents struct {
	at    map[string]string
	asked []string
}

func (d *documents) fetch(_ context.Context, at *url.URL) (Document, error) {
	d.asked = append(d.asked, at.String())
	doc, ok := d.at[at.String()]
	switch {
	case !ok:
		return Document{Status: http.StatusNotFound}, nil
	case doc == "":
		return Document{Status: http.StatusOK}, nil // not JSON
	}
	return Document{Status: http.StatusOK, Body: wire.ValueOf(wire.Raw(doc))}, nil
}

func TestFindServer(t *testing.T) {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	for issuer, want := range map[string][]string{
		"https://idp":         {"https://idp" + oauth, "https://idp" + oidc},
		"https://idp/":        {"https://idp" + oauth, "https://idp" + oidc},
		"https://idp/tenant":  {"https://idp" + oauth + "/tenant", "https://idp" + oidc + "/tenant", "https://idp/tenant" + oidc},
		"https://idp/ten%2Fx": {"https://idp" + oauth + "/ten%2Fx", "https://idp" + oidc + "/ten%2Fx", "https://idp/ten%2Fx" + oidc},
	} {
		last := want[len(want)-1]
		d := &documents{at: map[string]string{want[0]: "", last: `{"issuer":"` + issuer + `","jwks_uri":"https://idp/keys"}`}}
		s, err := FindServer(t.Context(), issuer, d.fetch)
		if err != nil || s.Issuer != issuer || s.JWKSURI != "https://idp/keys" || !slices.Equal(d.asked, want) {
			t.Errorf("%s: %+v, %v; asked for %q", issuer, s, err, d.asked)
		}

		// A document about another issuer is not used, and does not hide the right one.
		d.at[want[0]] = `{"issuer":"https://other"}`
		if s, err = FindServer(t.Context(), issuer, d.fetch); err != nil || s.Issuer != issuer {
			t.Errorf("%s: beside a document of another issuer: %v", issuer, err)
		}
		delete(d.at, last)
		var other *IssuerError
		if _, err = FindServer(t.Context(), issuer, d.fetch); !errors.As(err, &other) || other.Named != "https://other" {
			t.Errorf("%s: metadata of another issuer: %v", issuer, err)
		}
		var missing *NotFoundError
		if _, err = FindServer(t.Context(), issuer, new(documents).fetch); !errors.As(err, &missing) || missing.Status != http.StatusNotFound {
			t.Errorf("%s: no metadata: %v", issuer, err)
		}
	}
	broken := errors.New("broken")
	if _, err := FindServer(t.Context(), "https://idp", func(context.Context, *url.URL) (Document, error) { return Document{}, broken }); err != broken {
		t.Errorf("got %v, want the error of the fetch", err)
	}
}

func TestFindResource(t *testing.T) {
	u := parse(t, "https://mcp.example.com/a/mcp")
	root, below := "https://mcp.example.com"+ResourcePath, "https://mcp.example.com"+ResourcePath+"/a/mcp"
	for name, tc := range map[string]struct {
		at   map[string]string
		want *Resource
	}{
		"at the path":       {map[string]string{below: `{"resource":"https://mcp.example.com/a/mcp","authorization_servers":["https://idp"]}`}, &Resource{Resource: "https://mcp.example.com/a/mcp", Servers: []string{"https://idp"}}},
		"at the root":       {map[string]string{root: `{"resource":"https://MCP.example.com:443/","authorization_servers":["https://idp",1],"scopes_supported":["s"]}`}, &Resource{Resource: "https://MCP.example.com:443/", Servers: []string{"https://idp"}, Scopes: []string{"s"}}},
		"of 2025-03-26":     {nil, &Resource{Resource: "https://mcp.example.com/a/mcp", Servers: []string{"https://mcp.example.com"}, Assumed: true}},
		"another host":      {map[string]string{below: `{"resource":"https://evil.example.com/a/mcp","authorization_servers":["https://idp"]}`}, nil},
		"a sibling":         {map[string]string{below: `{"resource":"https://mcp.example.com/a/mc","authorization_servers":["https://idp"]}`}, nil},
		"no server":         {map[string]string{below: `{"resource":"https://mcp.example.com/a"}`}, nil},
		"user in the name":  {map[string]string{below: `{"resource":"https://u@mcp.example.com/a","authorization_servers":["https://idp"]}`}, nil},
		"servers no array":  {map[string]string{below: `{"resource":"https://mcp.example.com/a","authorization_servers":"https://idp"}`}, nil},
		"resource is above": {map[string]string{below: `{"resource":"https://mcp.example.com","authorization_servers":["https://idp"]}`}, &Resource{Resource: "https://mcp.example.com", Servers: []string{"https://idp"}}},
	} {
		got, err := FindResource(t.Context(), u, (&documents{at: tc.at}).fetch)
		if (err == nil) != (tc.want != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestResourceJSON(t *testing.T) {
	want := Resource{Resource: "https://mcp.example.com", Servers: []string{"https://a", "https://b"}, Scopes: []string{"s"}, Name: "n"}
	got, err := ParseResource(parse(t, want.Resource), wire.ValueOf(want.JSON()))
	if diff := cmp.Diff(&want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestCanonicalURI(t *testing.T) {
	for from, want := range map[string]string{
		"HTTPS://MCP.Example.com/Mcp": "https://mcp.example.com/Mcp", "https://mcp.example.com/": "https://mcp.example.com", "https://mcp.example.com:8443/a?b#c": "https://mcp.example.com:8443/a",
	} {
		if got := CanonicalURI(parse(t, from)); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}
