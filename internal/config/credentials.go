package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/url"
	"slices"
	"strings"
)

// CredentialKind is with what the gateway calls an upstream.
type CredentialKind string

// The kinds of credentials. The zero value is none but headers.
const (
	// CredentialClient is the gateway's own grant (RFC 6749, section 4.4).
	CredentialClient CredentialKind = "client-credentials"
	// CredentialExchange exchanges the token of the principal (RFC 8693).
	CredentialExchange CredentialKind = "token-exchange"
	// CredentialEnterprise gets a grant for the principal from the enterprise's
	// identity provider, and a token for that from the upstream's authorization server.
	CredentialEnterprise CredentialKind = "enterprise"
	// CredentialUser is the grant of each principal.
	CredentialUser CredentialKind = "user"
)

// Registration is who the gateway is to an authorization server, at which it is
// registered. It proves that with a secret, with a signature, or not at all.
type Registration struct {
	ClientID     string `yaml:"client_id,omitempty" doc:"who the gateway is to the authorization server"`
	ClientSecret Secret `yaml:"client_secret,omitempty" doc:"what proves that"`
	PrivateKey   Secret `yaml:"private_key,omitempty" format:"private-key" doc:"key in PEM that signs assertions (RFC 7523), in place of a secret"`
	KeyID        string `yaml:"key_id,omitempty" doc:"name of the key at the authorization server"`
}

// Client is a registration and where it is one.
type Client struct {
	Registration `yaml:",inline"`
	Issuer       string `yaml:"issuer,omitempty" format:"issuer" doc:"authorization server, whose metadata says where its endpoints are"`
	TokenURL     string `yaml:"token_url,omitempty" format:"secure-url" doc:"token endpoint, for an authorization server without metadata"`
}

// Credentials are with what the gateway calls an upstream, beside headers.
type Credentials struct {
	Kind         CredentialKind `yaml:"kind,omitempty" enum:"client-credentials|token-exchange|enterprise|user" doc:"what proves who calls: a grant of the gateway, the principal's token exchanged, one of the enterprise, or a grant of each principal"`
	Client       `yaml:",inline"`
	Scopes       []string `yaml:"scopes,omitempty" format:"scope" doc:"scopes to ask for; for user unset means those that the server names"`
	Resource     *string  `yaml:"resource,omitempty" doc:"what tokens are to be for (RFC 8707): the upstream's URL unless set; empty sends none"`
	Audience     string   `yaml:"audience,omitempty" doc:"the same in the words of authorization servers that ask for an audience"`
	SubjectToken string   `yaml:"subject_token,omitempty" enum:"access_token|id_token|jwt" doc:"kind of the token that principals bring"`
	IdP          Client   `yaml:"idp,omitempty" doc:"the enterprise's identity provider, for enterprise"`
	Insecure     bool     `yaml:"insecure,omitempty" default:"false" doc:"let tokens go to a URL with http off loopback, where something else protects the way"`
}

// IsZero tells whether there are none.
func (c Credentials) IsZero() bool { return c.Kind == "" }

// PerPrincipal tells whether what proves who calls differs by principal.
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

// checkAuth holds the keys of credentials against one another and against the
// rest of the upstream.
func (e *entry) checkAuth(m *mapping) {
	if !m.has("auth") {
		return
	}
	switch header := e.Headers.name("Authorization"); {
	case !m.has("url") && m.has("command"):
		m.errorf("auth", notForCommand)
	case e.Auth.Kind == "":
	case header != "":
		m.errorf("auth", "contradicts the header %s; keep one of them", header)
	case !e.Auth.Insecure && !safeURL(e.URL):
		m.errorf("url", "tokens would go over the network unprotected; write https, or set auth.insecure: true where something else protects the way")
	}
}

// warnPlain remarks on headers that may be secret, on their way unprotected.
func (e *entry) warnPlain(m *mapping) {
	if name := e.Headers.name("Authorization"); name != "" && m.has("url") && !e.Auth.Insecure && !safeURL(e.URL) {
		m.warnf("url", "the header %s goes over the network unprotected; write https, or set auth.insecure: true where something else protects the way", name)
	}
}

// safeURL tells whether nobody reads on the way to a URL.
func safeURL(s string) bool {
	u, err := url.Parse(s)
	return err != nil || u.Scheme != "http" || isLoopbackHost(u.Hostname())
}

// name returns the spelling in which a header is there, "" for none.
func (h Headers) name(header string) string {
	for name := range h {
		if strings.EqualFold(name, header) {
			return name
		}
	}
	return ""
}

// check holds the keys of credentials against their kind.
func (c *Credentials) check(m *mapping) {
	if c.Kind == "" {
		// Without a kind insecure is about the header Authorization.
		if !m.meant["kind"] && !m.has("kind") && len(m.given) > 0 && !(m.has("insecure") && len(m.given) == 1) {
			m.errorf("", "needs kind: client-credentials, token-exchange, enterprise or user")
		}
		return
	}
	c.checkClient(m, string(c.Kind))
	located := c.Issuer != "" || c.TokenURL != ""
	switch c.Kind {
	case CredentialClient:
		switch {
		case c.ClientID == "" && !m.meant["client_id"]:
			m.errorf("", "client-credentials needs client_id, and client_secret or private_key")
		case c.ClientSecret.IsZero() && c.PrivateKey.IsZero() && !m.has("private_key"):
			m.errorf("", "client-credentials needs client_secret or private_key")
		}
	case CredentialExchange:
		if !located && !m.has("issuer") && !m.has("token_url") {
			m.errorf("", "token-exchange needs issuer or token_url: tokens of principals go nowhere that the configuration does not name")
		}
	case CredentialEnterprise:
		if !m.has("idp") {
			m.errorf("", "enterprise needs idp: {issuer or token_url, client_id}")
		}
		if c.Issuer == "" && !m.has("issuer") {
			m.errorf("", "enterprise needs issuer, the upstream's authorization server, for which the identity provider makes its grant")
		}
	case CredentialUser:
		if c.TokenURL != "" {
			m.errorf("token_url", "has no meaning for user, which needs to know where users log in too; use issuer")
		}
		if c.ClientID != "" && c.ClientSecret.IsZero() && c.PrivateKey.IsZero() && c.Issuer == "" && !m.has("issuer") {
			m.errorf("client_id", "needs issuer: it is good at the authorization server that gave it, not at one that the upstream names")
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
			m.errorf(only.key, "has no meaning for %s; remove it", c.Kind)
		}
	}
}

// check holds the keys of a client against one another. Those of Credentials are
// checked there.
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

// checkClient holds the keys of a client against one another; what names it in
// errors.
func (c *Client) checkClient(m *mapping, what string) {
	c.checkRegistration(m)
	proven := !c.ClientSecret.IsZero() || !c.PrivateKey.IsZero()
	if proven && c.ClientID != "" && c.Issuer == "" && c.TokenURL == "" && !m.has("issuer") && !m.has("token_url") {
		m.errorf("", "%s needs issuer or token_url: what proves the gateway goes nowhere that the configuration does not name", what)
	}
}

// check holds the keys of a registration that stands alone against one another.
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
	case (secret || key) && r.ClientID == "" && !m.meant["client_id"]:
		m.errorf("", "needs client_id beside client_secret or private_key")
	}
	if r.KeyID != "" && !key && !m.has("private_key") {
		m.errorf("key_id", "has no meaning without private_key")
	}
}

// privateKey is a key in PEM, as openssl writes them.
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
