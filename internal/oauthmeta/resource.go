package oauthmeta

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcpgateway/internal/wire"
)

// ResourcePath is the well-known path of the metadata of a protected resource. The path of
// the resource follows it (RFC 9728, section 3.1).
const ResourcePath = "/.well-known/oauth-protected-resource"

// Resource is the metadata of a protected resource.
type Resource struct {
	Resource string // the resource that tokens have to be for
	Servers  []string
	Scopes   []string
	Name     string
	Assumed  bool // there is no metadata, and the resource is taken for its own authorization server
}

// ResourceError says that a document is the metadata of another resource.
type ResourceError struct{ Named string }

// Error implements error.
func (e *ResourceError) Error() string {
	return fmt.Sprintf("the metadata is about another resource: %.200q", e.Named)
}

// ErrNoServer says that the metadata of a resource names no authorization server.
var ErrNoServer = errors.New("the metadata names no authorization server")

// ResourceURLs returns the well-known URLs of the metadata of the resource at u.
func ResourceURLs(u *url.URL) []*url.URL {
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	urls := []*url.URL{root.JoinPath(ResourcePath)}
	if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
		urls = slices.Insert(urls, 0, root.JoinPath(ResourcePath, path))
	}
	return urls
}

// FindResource returns the metadata of the resource at u from the first well-known URL that
// has it. Without metadata the resource is its own authorization server, as in revision
// 2025-03-26. The error is that of [ParseResource] or fetch.
func FindResource(ctx context.Context, u *url.URL, fetch Fetch) (*Resource, error) {
	for _, at := range ResourceURLs(u) {
		d, err := fetch(ctx, at)
		if err != nil {
			return nil, err
		}
		if d.Status == http.StatusOK && d.Body.Exists() {
			return ParseResource(u, d.Body)
		}
	}
	return &Resource{Resource: CanonicalURI(u), Servers: []string{u.Scheme + "://" + u.Host}, Assumed: true}, nil
}

// ParseResource reads the metadata of the resource at u. The error is a [*ResourceError] or
// [ErrNoServer].
func ParseResource(u *url.URL, doc wire.Value) (*Resource, error) {
	r := &Resource{
		Resource: doc.Get("resource").Str(), Servers: texts(doc.Get("authorization_servers")), Scopes: texts(doc.Get("scopes_supported")),
		Name: doc.Get("resource_name").Str(),
	}
	if named, err := url.Parse(r.Resource); err != nil || !covers(named, u) {
		return nil, &ResourceError{r.Resource}
	}
	if len(r.Servers) == 0 {
		return nil, ErrNoServer
	}
	return r, nil
}

// JSON returns the document (RFC 9728, section 2). Tokens have to be in the Authorization
// header.
func (r *Resource) JSON() wire.Raw {
	doc := wire.SetMember(wire.Raw(`{}`), "resource", wire.String(r.Resource))
	doc = wire.SetMember(doc, "authorization_servers", wire.Strings(r.Servers))
	if len(r.Scopes) > 0 {
		doc = wire.SetMember(doc, "scopes_supported", wire.Strings(r.Scopes))
	}
	doc = wire.SetMember(doc, "bearer_methods_supported", wire.Strings([]string{"header"}))
	return wire.SetMember(doc, "resource_name", wire.String(r.Name))
}

// covers reports whether a token for the resource r is one for the server at u: they are
// equal, or u is below r.
func covers(r, u *url.URL) bool {
	base, path := strings.TrimSuffix(r.EscapedPath(), "/"), strings.TrimSuffix(u.EscapedPath(), "/")
	return r.Host != "" && Origin(r) == Origin(u) && (path == base || strings.HasPrefix(path, base+"/")) && r.Fragment == "" && r.User == nil
}

// CanonicalURI returns the name of the server at u as a resource (2026-07-28,
// basic/authorization, "Canonical Server URI").
func CanonicalURI(u *url.URL) string {
	c := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// Origin returns the scheme, host and port of a URL in lower case.
func Origin(u *url.URL) string { return strings.ToLower(u.Scheme) + "://" + HostPort(u) }

// HostPort returns the host and port of a URL in lower case, with the default port of the
// scheme if the URL names none.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
