package oauthmeta

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcpgateway/internal/wire"
)

// Document is an HTTP answer. Body is a JSON object, or absent if the answer is not one.
type Document struct {
	Status int
	Body   wire.Value
}

// Fetch fetches a document. An error ends the search for metadata.
type Fetch func(ctx context.Context, at *url.URL) (Document, error)

// Server is the metadata of an authorization server. URLs are "" if they are absent.
type Server struct {
	Issuer                string
	TokenEndpoint         string
	AuthorizationEndpoint string
	RegistrationEndpoint  string
	RevocationEndpoint    string // RFC 7009
	JWKSURI               string
	AuthMethods           []string // of clients at the token endpoint; none if it does not say
	Scopes                []string
	PKCE                  bool // it offers the code challenge method S256
	IssParameter          bool // authorization responses name the issuer (RFC 9207)
	ClientIDDocuments     bool // clients may use the URL of their metadata as client_id
}

// IssuerError says that a document is the metadata of another issuer.
type IssuerError struct{ Issuer, Named string }

// Error implements error.
func (e *IssuerError) Error() string {
	return fmt.Sprintf("the metadata is that of another issuer: %.200q instead of %.200q", e.Named, e.Issuer)
}

// NotFoundError says that no well-known URL has a metadata document.
type NotFoundError struct{ Status int } // the last status

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no metadata at the well-known URLs (HTTP %d)", e.Status)
}

// ServerURLs returns the well-known URLs of the metadata of an issuer, in the order in which
// clients try them (2025-11-25, basic/authorization, and 2026-07-28,
// basic/authorization/authorization-server-discovery, "Authorization Server Metadata
// Discovery").
func ServerURLs(issuer *url.URL) []*url.URL {
	const oauth, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	root := &url.URL{Scheme: issuer.Scheme, Host: issuer.Host}
	path := strings.TrimRight(issuer.EscapedPath(), "/")
	if path == "" {
		return []*url.URL{root.JoinPath(oauth), root.JoinPath(oidc)}
	}
	return []*url.URL{root.JoinPath(oauth, path), root.JoinPath(oidc, path), root.JoinPath(path, oidc)}
}

// FindServer returns the metadata of an issuer from the first well-known URL that has it.
// The error is a [*NotFoundError], an [*IssuerError] or that of fetch.
func FindServer(ctx context.Context, issuer string, fetch Fetch) (*Server, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	missing := &NotFoundError{}
	var other error
	for _, at := range ServerURLs(u) {
		d, err := fetch(ctx, at)
		if err != nil {
			return nil, err
		}
		if d.Status != http.StatusOK || !d.Body.Exists() {
			missing.Status = d.Status
			continue
		}
		s, err := ParseServer(issuer, d.Body)
		if err == nil {
			return s, nil
		}
		other = err // another URL may be about this issuer
	}
	if other != nil {
		return nil, other
	}
	return nil, missing
}

// ParseServer reads the metadata of an issuer. The error is an [*IssuerError]: metadata of
// another issuer must not be used (RFC 8414, section 3.3).
func ParseServer(issuer string, doc wire.Value) (*Server, error) {
	if named := doc.Get("issuer").Str(); named != issuer {
		return nil, &IssuerError{issuer, named}
	}
	return &Server{
		Issuer:                issuer,
		TokenEndpoint:         doc.Get("token_endpoint").Str(),
		AuthorizationEndpoint: doc.Get("authorization_endpoint").Str(),
		RegistrationEndpoint:  doc.Get("registration_endpoint").Str(),
		RevocationEndpoint:    doc.Get("revocation_endpoint").Str(),
		JWKSURI:               doc.Get("jwks_uri").Str(),
		AuthMethods:           texts(doc.Get("token_endpoint_auth_methods_supported")),
		Scopes:                texts(doc.Get("scopes_supported")),
		PKCE:                  slices.Contains(texts(doc.Get("code_challenge_methods_supported")), "S256"),
		IssParameter:          doc.Get("authorization_response_iss_parameter_supported").Bool(),
		ClientIDDocuments:     doc.Get("client_id_metadata_document_supported").Bool(),
	}, nil
}

// texts returns the strings of an array, none for any other value.
func texts(v wire.Value) []string {
	var all []string
	for e := range v.Elements() {
		if s, ok := e.Text(); ok {
			all = append(all, s)
		}
	}
	return all
}
