package config

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/configfile"
)

// AuthMode is a way in which clients prove who they are.
type AuthMode string

// The modes of auth.mode. AuthNone takes every client for the same principal, and
// stands alone; any of the others is proof enough.
const (
	AuthNone AuthMode = "none"
	AuthKey  AuthMode = "api-key"
	AuthJWT  AuthMode = "jwt"
	AuthMTLS AuthMode = "mtls"
)

// Auth is how clients prove who they are.
type Auth struct {
	Mode     []AuthMode     `yaml:"mode" default:"none" enum:"none|api-key|jwt|mtls" single:"true" doc:"proof that clients must give; one of a list is enough"`
	Insecure bool           `yaml:"insecure" default:"false" doc:"let mode none listen off loopback"`
	APIKeys  []APIKey       `yaml:"api_keys" reload:"true" doc:"keys of mode api-key, sent as Authorization: Bearer KEY or X-API-Key: KEY"`
	JWT      []JWT          `yaml:"jwt" doc:"issuers of access tokens of mode jwt"`
	MTLS     []MTLS         `yaml:"mtls" doc:"whom client certificates of mode mtls stand for; the first entry that covers a name of one decides"`
	Scopes   []ImpliedScope `yaml:"scope_hierarchy" doc:"scopes that stand for others"`
}

// Has tells whether a mode is on.
func (a *Auth) Has(mode AuthMode) bool { return slices.Contains(a.Mode, mode) }

// APIKey is a key by its digest.
type APIKey struct {
	ID      string   `yaml:"id" format:"subject" doc:"subject of who sends the key"`
	SHA256  string   `yaml:"sha256" format:"sha256" doc:"SHA-256 of the key, in hex; gateway key prints it"`
	Groups  []string `yaml:"groups" format:"who" doc:"groups"`
	Scopes  []string `yaml:"scopes" format:"scope" doc:"scopes"`
	Expires string   `yaml:"expires" format:"moment" doc:"when the key is good no more: a day, which begins at midnight UTC, or a time as in RFC 3339"`
}

// ExpiresAt is when the key is good no more, zero for never.
func (k APIKey) ExpiresAt() time.Time {
	t, _ := time.Parse(time.RFC3339, k.Expires) // Load has brought it into this form
	return t
}

// JWT is an issuer of access tokens.
type JWT struct {
	Issuer     string        `yaml:"issuer" format:"issuer" doc:"URL of the issuer, exactly as its tokens have it in iss"`
	Audience   []string      `yaml:"audience" format:"who" single:"true" doc:"names of this gateway, one of which has to be in aud; empty means public_url and what is served below it"`
	Claims     Claims        `yaml:"claims" doc:"where a token says what: names of claims, with dots for members within one"`
	Required   []string      `yaml:"required_scopes" format:"scope" doc:"scopes that every token must have; clients are told to ask for them"`
	Algorithms []string      `yaml:"algorithms" enum:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA" doc:"signature algorithms that are accepted; empty means all that can be listed"`
	Skew       time.Duration `yaml:"clock_skew" default:"30s" min:"0s" max:"10m" doc:"by how much the issuer's clock may differ"`
	Discovery  string        `yaml:"discovery" format:"secure-url" doc:"URL of the issuer's metadata; empty means the well-known places below the issuer"`
	JWKS       string        `yaml:"jwks" format:"secure-url" doc:"URL of the issuer's keys; empty means what its metadata says"`
	Login      Registration  `yaml:"login,omitempty" doc:"the gateway at the issuer, for users who prove in a browser who they are, before they grant access to an upstream"`

	at *mapping // where it stands
}

// Claims say where in a token something stands.
type Claims struct {
	Subject string `yaml:"subject" default:"sub" format:"non-empty" doc:"claim with the subject"`
	Groups  string `yaml:"groups" default:"groups" format:"non-empty" doc:"claim with the groups, a string or a list"`
	Scopes  string `yaml:"scopes" default:"scope" format:"non-empty" doc:"claim with the scopes, a string with spaces between or a list"`
}

// MTLS says whom certificates stand for. One of CN, DNS, URI and Email is set.
type MTLS struct {
	CN      string   `yaml:"cn" format:"glob" doc:"glob of the common name"`
	DNS     string   `yaml:"dns" format:"glob" doc:"glob of an alternative name that is a DNS name"`
	URI     string   `yaml:"uri" format:"glob" doc:"glob of an alternative name that is a URI, such as spiffe://corp/agents/*"`
	Email   string   `yaml:"email" format:"glob" doc:"glob of an alternative name that is an e-mail address"`
	Subject string   `yaml:"subject" doc:"subject of the principal, in which each * becomes what that of the name stood for; empty means the whole name"`
	Groups  []string `yaml:"groups" format:"who" doc:"groups"`
	Scopes  []string `yaml:"scopes" format:"scope" doc:"scopes"`
}

// ImpliedScope says which scopes come with one.
type ImpliedScope struct {
	Scope   string   `yaml:"scope" format:"scope" doc:"a scope"`
	Implies []string `yaml:"implies" format:"scope" doc:"scopes that whoever has it has too"`
}

// TLS is how MCP is served over TLS. The files are read again when they change.
type TLS struct {
	Cert     string `yaml:"cert" doc:"file with the certificate chain, in PEM; empty means plain HTTP"`
	Key      string `yaml:"key" doc:"file with its key, in PEM"`
	ClientCA string `yaml:"client_ca" doc:"file with the authorities of client certificates, in PEM; without mode mtls every client needs one"`
}

// On tells whether TLS is served.
func (t TLS) On() bool { return t.Cert != "" }

var (
	digest    = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	scopeForm = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,256}$`) // RFC 6749, section 3.3
	subject   = regexp.MustCompile(`^[^\x00-\x1f\x7f]{1,256}$`)
)

// moment is a day or a time.
func moment(s string) (string, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format(time.RFC3339), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "", errors.New("must be a day, such as 2027-01-31, or a time, such as 2027-01-31T18:00:00Z")
	}
	return t.Format(time.RFC3339), nil
}

// secureURL is an https URL, or an http URL on this machine.
func secureURL(s string) (string, error) {
	if s == "" {
		return s, nil
	}
	u, err := url.Parse(s)
	if err == nil && u.Hostname() != "" && u.User == nil && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && isLoopbackHost(u.Hostname())) {
		return s, nil
	}
	return "", errors.New("must be an https URL, or an http one on loopback, such as https://idp.example.com")
}

// issuerURL is an issuer's identifier (RFC 8414, section 2).
func issuerURL(s string) (string, error) {
	if _, err := secureURL(s); err != nil {
		return "", err
	}
	if s == "" || strings.Contains(s, "?") {
		return "", errors.New("must be an https URL without a query, such as https://idp.example.com")
	}
	return s, nil
}

// network is a range of addresses, or one address.
func network(s string) (string, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()).String(), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Masked() != p {
		return "", errors.New("must be an address or a network, such as 10.0.0.0/8")
	}
	return s, nil
}

// needs demands keys of a mapping.
func (m *mapping) needs(keys ...string) {
	for _, key := range keys {
		if !m.has(key) && !m.meant[key] {
			m.errorf("", "needs %s", key)
		}
	}
}

func (k *APIKey) check(m *mapping)       { m.needs("id", "sha256") }
func (s *ImpliedScope) check(m *mapping) { m.needs("scope", "implies") }

func (j *JWT) check(m *mapping) {
	m.needs("issuer")
	j.at = m
}

// check demands one name, and no more * in the subject than it has.
func (c *MTLS) check(m *mapping) {
	var given []string
	glob := ""
	for _, n := range []struct{ key, glob string }{{"cn", c.CN}, {"dns", c.DNS}, {"uri", c.URI}, {"email", c.Email}} {
		if m.has(n.key) || m.meant[n.key] {
			given, glob = append(given, n.key), n.glob
		}
	}
	switch {
	case len(given) == 0:
		m.errorf("", "needs the name that it is about: cn, dns, uri or email")
	case len(given) > 1:
		m.errorf(given[1], "an entry is about one kind of name; make another entry for it")
	case glob != "" && strings.Count(c.Subject, "*") > strings.Count(glob, "*"):
		m.errorf("subject", "has more * than %s, which it takes them from", given[0])
	}
}

// check holds the modes against one another and against what they need.
func (a *Auth) check(m *mapping) {
	if len(a.Mode) == 0 {
		if m.has("mode") {
			m.errorf("mode", "names no mode; write none for none")
		}
		a.Mode = []AuthMode{AuthNone}
	}
	for i, mode := range a.Mode {
		if slices.Contains(a.Mode[:i], mode) {
			m.errorf("mode", "names %s twice", mode)
		}
	}
	if len(a.Mode) > 1 && a.Has(AuthNone) {
		m.errorf("mode", "none stands alone: beside it no proof would be needed")
	}
	for _, n := range []struct {
		mode  AuthMode
		key   string
		given bool
	}{{AuthKey, "api_keys", len(a.APIKeys) > 0}, {AuthJWT, "jwt", len(a.JWT) > 0}, {AuthMTLS, "mtls", len(a.MTLS) > 0}} {
		switch {
		case a.Has(n.mode) && !n.given && m.has(n.key):
			m.errorf(n.key, "is empty, and mode %s needs an entry", n.mode)
		case a.Has(n.mode) && !n.given && !m.meant[n.key]:
			m.errorf("mode", "%s needs auth.%s", n.mode, n.key)
		case !a.Has(n.mode) && n.given:
			m.warnf(n.key, "has no effect: auth.mode does not name %s", n.mode)
		}
	}
	if a.Insecure && !a.Has(AuthNone) {
		m.warnf("insecure", "has no effect: it is for mode none")
	}
	a.checkTwice(m)
}

// checkTwice demands that keys, their subjects and issuers are there once.
func (a *Auth) checkTwice(m *mapping) {
	ids, digests, issuers := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, k := range a.APIKeys {
		if ids[k.ID] && k.ID != "" {
			m.errorf("api_keys", "the id %s is there twice; give each key its own", configfile.Quote(k.ID))
		}
		if digests[k.SHA256] && k.SHA256 != "" {
			m.errorf("api_keys", "the key %s is that of another id too", configfile.Quote(k.ID))
		}
		ids[k.ID], digests[k.SHA256] = true, true
		if at := k.ExpiresAt(); !at.IsZero() && time.Now().After(at) {
			m.warnf("api_keys", "the key %s has expired", configfile.Quote(k.ID))
		}
	}
	for _, j := range a.JWT {
		if issuers[j.Issuer] && j.Issuer != "" {
			m.errorf("jwt", "the issuer %s is there twice; put its audiences into one entry", configfile.Quote(j.Issuer))
		}
		issuers[j.Issuer] = true
	}
}

// check demands a key with a certificate.
func (t *TLS) check(m *mapping) {
	switch {
	case t.Cert != "" && t.Key == "":
		m.errorf("cert", "needs key, the file with its private key")
	case t.Cert == "" && t.Key != "":
		m.errorf("key", "needs cert, the file with its certificate")
	case t.Cert == "" && t.ClientCA != "":
		m.errorf("client_ca", "needs cert and key: only over TLS clients send certificates")
	}
	for _, f := range []*string{&t.Cert, &t.Key, &t.ClientCA} {
		*f = inFolder(m.d.dir, *f)
	}
}

// checkAuth looks at what proof needs of the rest of the file.
func (doc *document) checkAuth(m *mapping) {
	a := &doc.Auth
	if a.Has(AuthMTLS) && doc.TLS.ClientCA == "" && !m.meant["tls"] {
		m.errorf("auth", "mode mtls needs tls.client_ca, the authorities of the clients' certificates")
	}
	for _, j := range a.JWT {
		if a.Has(AuthJWT) && len(j.Audience) == 0 && doc.PublicURL == "" && !m.meant["public_url"] && !j.at.meant["audience"] {
			j.at.errorf("audience", "needs audience, the name of this gateway in tokens, or set public_url: tokens for others must not be accepted")
		}
	}
	if !a.Has(AuthNone) && !isLoopback(doc.Listen) && !doc.TLS.On() && !strings.HasPrefix(doc.PublicURL, "https:") {
		m.warnf("listen", "proof would travel in clear text: set tls, or public_url to the https URL of the proxy that stands in front")
	}
}
