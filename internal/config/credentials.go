package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// CredentialKind says which credentials the gateway sends to an upstream.
type CredentialKind string

// The kinds of credentials. The zero value means static headers only.
const (
	// CredentialClient is the client credentials grant of the gateway (RFC 6749, section 4.4).
	CredentialClient CredentialKind = "client-credentials"
	// CredentialExchange exchanges the token of the principal (RFC 8693).
	CredentialExchange CredentialKind = "token-exchange"
	// CredentialEnterprise gets a grant for the principal from the enterprise's identity provider,
	// and exchanges it for a token at the upstream's authorization server.
	CredentialEnterprise CredentialKind = "enterprise"
	// CredentialUser is the grant of each principal, given in a browser.
	CredentialUser CredentialKind = "user"
)

// Registration is the registration of the gateway at an authorization server. The gateway authenticates
// with a secret, with a signature, or not at all.
type Registration struct {
	ClientID     string `yaml:"client_id,omitempty" doc:"client_id of the gateway at the authorization server"`
	ClientSecret Secret `yaml:"client_secret,omitempty" doc:"secret of the gateway at the authorization server"`
	PrivateKey   Secret `yaml:"private_key,omitempty" format:"private-key" doc:"key in PEM that signs assertions (RFC 7523), in place of client_secret"`
	KeyID        string `yaml:"key_id,omitempty" doc:"id of the key at the authorization server"`
}

// Client is a registration and its authorization server.
type Client struct {
	Registration `yaml:",inline"`
	Issuer       string `yaml:"issuer,omitempty" format:"issuer" doc:"authorization server; its metadata names its endpoints"`
	TokenURL     string `yaml:"token_url,omitempty" format:"secure-url" doc:"token endpoint, for an authorization server without metadata"`
}

// Credentials are the credentials that the gateway sends to an upstream, in addition to headers.
type Credentials struct {
	Kind         CredentialKind `yaml:"kind,omitempty" enum:"client-credentials|token-exchange|enterprise|user" doc:"kind of credentials: a grant of the gateway, an exchange of the principal's token, a grant of the enterprise, or a grant of each principal"`
	Client       `yaml:",inline"`
	Scopes       []string `yaml:"scopes,omitempty" format:"scope" doc:"scopes to request; for user the default is the scopes that the server names"`
	Resource     *string  `yaml:"resource,omitempty" doc:"resource of the tokens (RFC 8707): the upstream's URL unless set; empty sends none"`
	Audience     string   `yaml:"audience,omitempty" doc:"audience of the tokens, for authorization servers that expect an audience in place of a resource"`
	SubjectToken string   `yaml:"subject_token,omitempty" enum:"access_token|id_token|jwt" doc:"type of the tokens of principals"`
	IdP          Client   `yaml:"idp,omitempty" doc:"the enterprise's identity provider, for enterprise"`
	Insecure     bool     `yaml:"insecure,omitempty" default:"false" doc:"allow tokens to a URL with http that is not loopback, if something else protects the connection"`
}

// IsZero reports whether there are no credentials.
func (c Credentials) IsZero() bool { return c.Kind == "" }

// PerPrincipal reports whether the credentials differ by principal.
func (c Connection) PerPrincipal() bool {
	switch c.Auth.Kind {
	case CredentialExchange, CredentialEnterprise, CredentialUser:
		return true
	}
	for _, value := range c.Headers {
		if strings.Contains(value.Reveal(), openTemplate) {
			return true
		}
	}
	return false
}

// checkAuth checks the keys of credentials together with the rest of the upstream.
func (e *entry) checkAuth(m *mapping) {
	if !m.has("auth") {
		return
	}
	switch header := e.Headers.name("Authorization"); {
	case !isRemote(m) && m.has("command"):
		m.errorf("auth", notForCommand)
	case e.Auth.Kind == "":
	case header != "":
		m.errorf("auth", "contradicts the header %s; keep one of them", header)
	case !e.Auth.Insecure && !e.isProtected():
		m.errorf(urlKey(m), "tokens would go over the network unprotected; write https, or set auth.insecure: true if something else protects the connection")
	}
}

// warnCleartext warns of headers that may be secret and are sent in clear text.
func (e *entry) warnCleartext(m *mapping) {
	if name := e.Headers.name("Authorization"); name != "" && isRemote(m) && !e.Auth.Insecure && !e.isProtected() {
		m.warnf(urlKey(m), "the header %s goes over the network unprotected; write https, or set auth.insecure: true if something else protects the connection", name)
	}
}

// isProtected reports whether the connections to all URLs are protected.
func (e *entry) isProtected() bool {
	return !slices.ContainsFunc(e.AllURLs(), func(u string) bool { return !isProtected(u) })
}

// isProtected reports whether a connection to a URL is encrypted or stays on this machine.
func isProtected(s string) bool {
	u, err := url.Parse(s)
	return err != nil || u.Scheme != "http" || isLoopbackHost(u.Hostname())
}

// name returns the spelling of a header in the file, "" if it is missing.
func (h Headers) name(header string) string {
	for name := range h {
		if strings.EqualFold(name, header) {
			return name
		}
	}
	return ""
}

// check checks the keys of credentials for their kind.
func (c *Credentials) check(m *mapping) {
	if c.Kind == "" {
		// Without a kind, insecure concerns the header Authorization.
		if !m.intended["kind"] && !m.has("kind") && len(m.given) > 0 && !(m.has("insecure") && len(m.given) == 1) {
			m.errorf("", "needs kind: client-credentials, token-exchange, enterprise or user")
		}
		return
	}
	c.checkClient(m, string(c.Kind))
	located := c.Issuer != "" || c.TokenURL != ""
	switch c.Kind {
	case CredentialClient:
		switch {
		case c.ClientID == "" && !m.intended["client_id"]:
			m.errorf("", "client-credentials needs client_id, and client_secret or private_key")
		case c.ClientSecret.IsZero() && c.PrivateKey.IsZero() && !m.has("private_key"):
			m.errorf("", "client-credentials needs client_secret or private_key")
		}
	case CredentialExchange:
		if !located && !m.has("issuer") && !m.has("token_url") {
			m.errorf("", "token-exchange needs issuer or token_url: tokens of principals are sent only to servers in the configuration")
		}
	case CredentialEnterprise:
		if !m.has("idp") {
			m.errorf("", "enterprise needs idp: {issuer or token_url, client_id}")
		}
		if c.Issuer == "" && !m.has("issuer") {
			m.errorf("", "enterprise needs issuer, the upstream's authorization server, for which the identity provider issues its grant")
		}
	case CredentialUser:
		if c.TokenURL != "" {
			m.errorf("token_url", "has no effect for user, which also needs the authorization endpoint; use issuer")
		}
		if c.ClientID != "" && c.ClientSecret.IsZero() && c.PrivateKey.IsZero() && c.Issuer == "" && !m.has("issuer") {
			m.errorf("client_id", "needs issuer: it is valid at the authorization server that issued it, not at one that the upstream names")
		}
	}
	for _, only := range []struct {
		key   string
		set   bool
		kinds []CredentialKind
	}{
		{"idp", m.has("idp"), []CredentialKind{CredentialEnterprise}},
		{"subject_token", c.SubjectToken != "", []CredentialKind{CredentialExchange, CredentialEnterprise}},
		{"audience", c.Audience != "", []CredentialKind{CredentialClient, CredentialExchange}},
	} {
		if only.set && !slices.Contains(only.kinds, c.Kind) {
			m.errorf(only.key, "has no effect for %s; remove it", c.Kind)
		}
	}
}

// check checks the keys of the client of an identity provider. [Credentials] checks its own.
func (c *Client) check(m *mapping) {
	if len(m.given) == 0 {
		return
	}
	c.checkClient(m, "idp")
	if c.Issuer == "" && c.TokenURL == "" && !m.has("issuer") && !m.has("token_url") {
		m.errorf("", "needs issuer or token_url")
	}
	m.needs("client_id")
}

// checkClient checks the keys of a client; what names it in errors.
func (c *Client) checkClient(m *mapping, what string) {
	c.checkRegistration(m)
	authenticates := !c.ClientSecret.IsZero() || !c.PrivateKey.IsZero()
	if authenticates && c.ClientID != "" && c.Issuer == "" && c.TokenURL == "" && !m.has("issuer") && !m.has("token_url") {
		m.errorf("", "%s needs issuer or token_url: the secrets of the gateway are sent only to servers in the configuration", what)
	}
}

// check checks the keys of a registration that is not part of a client.
func (r *Registration) check(m *mapping) {
	r.checkRegistration(m)
	if len(m.given) > 0 && r.ClientSecret.IsZero() && r.PrivateKey.IsZero() {
		m.needs("client_id")
	}
}

func (r *Registration) checkRegistration(m *mapping) {
	secret, key := !r.ClientSecret.IsZero(), !r.PrivateKey.IsZero()
	switch {
	case secret && key:
		m.errorf("private_key", "contradicts client_secret; keep one of them")
	case (secret || key) && r.ClientID == "" && !m.intended["client_id"]:
		m.errorf("", "needs client_id together with client_secret or private_key")
	}
	if r.KeyID != "" && !key && !m.has("private_key") {
		m.errorf("key_id", "has no effect without private_key")
	}
}

// privateKey checks a key in PEM, as openssl writes it.
func privateKey(s string) (string, error) {
	block, _ := pem.Decode([]byte(s))
	if block == nil {
		return "", errors.New("must be a private key in PEM, such as ${file:/run/secrets/key.pem}")
	}
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(b []byte) (any, error) { return x509.ParsePKCS1PrivateKey(b) },
		func(b []byte) (any, error) { return x509.ParseECPrivateKey(b) },
	} {
		if _, err := parse(block.Bytes); err == nil {
			return s, nil
		}
	}
	return "", errors.New("must be an RSA, EC or Ed25519 key in PEM, not encrypted")
}
