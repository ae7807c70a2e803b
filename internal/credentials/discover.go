package credentials

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcpgateway/internal/wire"
)

// authServer is an authorization server as its metadata describes it (RFC 8414).
// The guard has checked its URLs. It is immutable.
type authServer struct {
	issuer    string
	token     *url.URL
	authorize *url.URL // nil for none
	register  *url.URL // nil for none
	keys      *url.URL // nil for none
	methods   []string // in which clients may authenticate
	scopes    []string
	pkce      bool // S256 is offered
	iss       bool // authorization responses name the issuer (RFC 9207)
	documents bool // a client may be named by the URL of its metadata
}

// protection is what a server says of who protects it (RFC 9728).
type protection struct {
	resource string // that tokens have to be for
	issuer   string // of its authorization server
	scopes   []string
}

// challenge is what a server says with a status 401 or 403 (RFC 6750, section 3).
type challenge struct {
	metadata string   // where its metadata is, "" when it does not say
	scopes   []string // that are needed
	code     string
}

// maxChallenge bounds what is read of a challenge.
const maxChallenge = 8 << 10

// readChallenge reads the Bearer challenge of an answer. What is malformed says
// nothing.
func readChallenge(h http.Header) challenge {
	var c challenge
	for _, text := range h.Values("WWW-Authenticate") {
		if len(text) > maxChallenge {
			continue
		}
		all, err := oauthex.ParseWWWAuthenticate([]string{text})
		if err != nil {
			continue
		}
		for _, one := range all {
			if one.Scheme == "bearer" && c.metadata == "" && c.scopes == nil && c.code == "" {
				c = challenge{one.Params["resource_metadata"], strings.Fields(one.Params["scope"]), one.Params["error"]}
			}
		}
	}
	return c
}

// protectionOf finds out who protects the server at u: by its challenge, at the
// well-known places, or, as servers of 2025-03-26 have it, the server itself
// (2026-07-28, basic/authorization/authorization-server-discovery).
func (g *guard) protectionOf(ctx context.Context, u *url.URL, c challenge) (protection, error) {
	const what = "the metadata of the server"
	if c.metadata != "" {
		at, err := g.checkText(c.metadata)
		if err != nil {
			return protection{}, refused(what, c.metadata, err)
		}
		a, err := g.fetch(ctx, what, at)
		switch {
		case err != nil:
			return protection{}, err
		case a.status != http.StatusOK:
			return protection{}, a.refusal(what)
		}
		return g.readProtection(u, a.body)
	}
	for _, path := range slices.Compact([]string{strings.TrimSuffix(u.EscapedPath(), "/"), ""}) {
		at := &url.URL{Scheme: u.Scheme, Host: u.Host}
		at = at.JoinPath("/.well-known/oauth-protected-resource", path)
		a, err := g.fetch(ctx, what, at)
		if err != nil {
			return protection{}, err
		}
		if a.status == http.StatusOK && a.body.Exists() {
			return g.readProtection(u, a.body)
		}
	}
	return protection{resource: canonical(u), issuer: u.Scheme + "://" + u.Host}, nil
}

func (g *guard) readProtection(u *url.URL, body wire.Value) (protection, error) {
	p := protection{resource: body.Get("resource").Str(), scopes: texts(body.Get("scopes_supported"))}
	if r, err := url.Parse(p.resource); err != nil || !covers(r, u) {
		return p, failf("the metadata of the server is about another resource").because(
			failf("it is about %.200q", p.resource))
	}
	if servers := texts(body.Get("authorization_servers")); len(servers) > 0 {
		p.issuer = servers[0]
		return p, nil
	}
	return p, failf("the metadata of the server names no authorization server")
}

// covers tells whether a token for the resource r is one for the server at u: they
// are the same, or u is below r.
func covers(r, u *url.URL) bool {
	base, path := strings.TrimSuffix(r.EscapedPath(), "/"), strings.TrimSuffix(u.EscapedPath(), "/")
	return r.Host != "" && originOf(r) == originOf(u) && (path == base || strings.HasPrefix(path, base+"/")) && r.Fragment == "" && r.User == nil
}

// canonical is the name of the server at u as a resource (2026-07-28,
// basic/authorization, "Canonical Server URI").
func canonical(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// serverOf gets the metadata of an issuer from the places where it may be
// (2026-07-28, basic/authorization/authorization-server-discovery, "Authorization
// Server Metadata Discovery").
func (g *guard) serverOf(ctx context.Context, issuer string) (*authServer, error) {
	const what = "the metadata of the authorization server"
	u, err := g.checkText(issuer)
	if err == nil && u.RawQuery != "" {
		err = errors.New("has a query")
	}
	if err != nil {
		return nil, refused("the authorization server", issuer, err)
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	places := []*url.URL{
		root.JoinPath("/.well-known/oauth-authorization-server", path),
		root.JoinPath("/.well-known/openid-configuration", path),
	}
	if path != "" {
		places = append(places, root.JoinPath(path, "/.well-known/openid-configuration"))
	}
	status := 0
	for _, at := range places {
		a, err := g.fetch(ctx, what, at)
		if err != nil {
			return nil, err
		}
		if a.status == http.StatusOK && a.body.Exists() {
			return g.readServer(issuer, a.body)
		}
		status = a.status
	}
	return nil, failf("%s is at none of its well-known places (HTTP %d)", what, status).because(failf("the issuer is %.200q", issuer))
}

func (g *guard) readServer(issuer string, body wire.Value) (*authServer, error) {
	s := &authServer{
		issuer: issuer, methods: texts(body.Get("token_endpoint_auth_methods_supported")), scopes: texts(body.Get("scopes_supported")),
		pkce: slices.Contains(texts(body.Get("code_challenge_methods_supported")), "S256"),
		iss:  body.Get("authorization_response_iss_parameter_supported").Bool(), documents: body.Get("client_id_metadata_document_supported").Bool(),
	}
	if named := body.Get("issuer").Str(); named != issuer {
		return nil, failf("the metadata of the authorization server is that of another one").because(
			failf("it is asked for %.200q and names %.200q", issuer, named))
	}
	for _, e := range []struct {
		name, what string
		to         **url.URL
	}{
		{"token_endpoint", "the token endpoint", &s.token},
		{"authorization_endpoint", "the authorization endpoint", &s.authorize},
		{"registration_endpoint", "the registration endpoint", &s.register},
		{"jwks_uri", "the keys", &s.keys},
	} {
		text := body.Get(e.name).Str()
		if text == "" {
			continue
		}
		u, err := g.checkText(text)
		if err != nil {
			return nil, refused(e.what, text, err)
		}
		*e.to = u
	}
	if s.token == nil {
		return nil, failf("the metadata of the authorization server names no token endpoint")
	}
	return s, nil
}
