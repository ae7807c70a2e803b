package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/configfile"
)

// AuthMode is a method of client authentication.
type AuthMode string

// The modes of auth.mode. With AuthNone, which excludes the others, every client is the same principal. Of
// several other modes one is sufficient.
const (
	AuthNone AuthMode = "none"
	AuthKey  AuthMode = "api-key"
	AuthJWT  AuthMode = "jwt"
	AuthMTLS AuthMode = "mtls"
)

// Auth says how clients authenticate.
type Auth struct {
	Mode     []AuthMode     `yaml:"mode" default:"none" enum:"none|api-key|jwt|mtls" single:"true" doc:"how clients authenticate; one mode of a list is sufficient"`
	Insecure bool           `yaml:"insecure" default:"false" doc:"allow mode none on addresses that are not loopback"`
	APIKeys  []APIKey       `yaml:"api_keys" reload:"true" doc:"keys of mode api-key, sent as Authorization: Bearer KEY or X-API-Key: KEY"`
	JWT      []JWT          `yaml:"jwt" doc:"issuers of access tokens of mode jwt"`
	MTLS     []MTLS         `yaml:"mtls" reload:"true" doc:"principals of client certificates of mode mtls; the first entry that matches a name of the certificate decides"`
	Scopes   []ImpliedScope `yaml:"scope_hierarchy" doc:"scopes that imply others"`
}

// Has reports whether a mode is on.
func (a *Auth) Has(mode AuthMode) bool { return slices.Contains(a.Mode, mode) }

// APIKey is an API key, given by its digest.
type APIKey struct {
	ID       string   `yaml:"id" format:"subject" doc:"name of the key in the log and in metrics, and subject of the principal unless subject is set"`
	Subject  string   `yaml:"subject,omitempty" format:"subject" doc:"subject of the principal, if it differs from id: a new key keeps the subject of the old one"`
	SHA256   string   `yaml:"sha256" format:"sha256" doc:"SHA-256 of the key, in hex; gateway key prints it"`
	Groups   []string `yaml:"groups" format:"claim" doc:"groups"`
	Scopes   []string `yaml:"scopes" format:"scope" doc:"scopes"`
	Profiles []string `yaml:"profiles" format:"non-empty" single:"true" doc:"the only profiles that the principal gets, by name; at /mcp the first of them, unless another one of them is chosen there; without it all"`
	Expires  string   `yaml:"expires" format:"expiry" doc:"when the key expires: a day, which begins at midnight UTC, or a time as in RFC 3339"`

	at *mapping // in the file
}

// ExpiresAt is the time when the key expires, zero for never.
func (k APIKey) ExpiresAt() time.Time {
	normal, _ := expiry(k.Expires) // Load has checked it, and Check does
	t, _ := time.Parse(time.RFC3339, normal)
	return t
}

// Check returns why an entry with these groups, scopes, profiles and expiry would be refused, as the key and the
// reason; nil if it would not.
func (k APIKey) Check() error {
	for _, member := range []struct {
		key, format string
		values      []string
	}{
		{"groups", "claim", k.Groups}, {"scopes", "scope", k.Scopes}, {"profiles", "non-empty", k.Profiles}, {"expires", "expiry", []string{k.Expires}},
	} {
		for _, value := range member.values {
			if value == "" && member.key == "expires" {
				continue
			}
			if _, err := formats[member.format](value); err != nil {
				return fmt.Errorf("%s: %q %w", member.key, value, err)
			}
		}
	}
	return nil
}

// EffectiveSubject is the subject of the key's principal.
func (k APIKey) EffectiveSubject() string { return cmp.Or(k.Subject, k.ID) }

// Differs returns what another key gives its principal otherwise: groups, scopes or profiles.
func (k APIKey) Differs(other APIKey) (keys []string) {
	same := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	if !same(k.Groups, other.Groups) {
		keys = append(keys, "groups")
	}
	if !same(k.Scopes, other.Scopes) {
		keys = append(keys, "scopes")
	}
	if !slices.Equal(k.Profiles, other.Profiles) { // the first one is that at /mcp
		keys = append(keys, "profiles")
	}
	return keys
}

// JWT is an issuer of access tokens.
type JWT struct {
	Issuer        string        `yaml:"issuer" format:"issuer" doc:"URL of the issuer, exactly as in the claim iss of its tokens"`
	Audience      []string      `yaml:"audience" format:"claim" single:"true" doc:"names of this gateway, one of which aud must contain; empty means public_url and the URLs below it"`
	ProfilesClaim string        `yaml:"profiles_claim" format:"non-empty" blank:"true" doc:"claim with the names of the only profiles that the principal gets, a string or a list; tokens without it are refused; empty means all profiles"`
	Claims        Claims        `yaml:"claims" doc:"names of claims, with dots for members inside a claim"`
	Required      []string      `yaml:"required_scopes" format:"scope" doc:"scopes that every token must have; clients learn that they must request them"`
	Algorithms    []string      `yaml:"algorithms" enum:"RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA" doc:"accepted signature algorithms; empty means all"`
	Skew          time.Duration `yaml:"clock_skew" default:"30s" min:"0s" max:"10m" doc:"tolerated difference of the issuer's clock"`
	Discovery     string        `yaml:"discovery" format:"secure-url" doc:"URL of the issuer's metadata; empty means the well-known URLs of the issuer"`
	JWKS          string        `yaml:"jwks" format:"secure-url" doc:"URL of the issuer's keys; empty means the URL in its metadata"`
	Login         Registration  `yaml:"login,omitempty" doc:"registration of the gateway at the issuer, to authenticate users in a browser: before they grant access to an upstream, and at /me and the console at the main address"`

	at *mapping // in the file
}

// Claims are the names of claims.
type Claims struct {
	Subject string `yaml:"subject" default:"sub" format:"non-empty" doc:"claim with the subject"`
	Groups  string `yaml:"groups" default:"groups" format:"non-empty" doc:"claim with the groups, a string or a list"`
	Scopes  string `yaml:"scopes" default:"scope" format:"non-empty" doc:"claim with the scopes, a string separated by spaces or a list"`
}

// MTLS maps certificates to principals. One of CN, DNS, URI and Email is set.
type MTLS struct {
	CN       string   `yaml:"cn" format:"glob" doc:"glob of the common name"`
	DNS      string   `yaml:"dns" format:"glob" doc:"glob of an alternative name that is a DNS name"`
	URI      string   `yaml:"uri" format:"glob" doc:"glob of an alternative name that is a URI, such as spiffe://corp/agents/*"`
	Email    string   `yaml:"email" format:"glob" doc:"glob of an alternative name that is an e-mail address"`
	Subject  string   `yaml:"subject" doc:"subject of the principal; each * in it becomes the text that the * of the name matched; empty means the whole name"`
	Groups   []string `yaml:"groups" format:"claim" doc:"groups"`
	Scopes   []string `yaml:"scopes" format:"scope" doc:"scopes"`
	Profiles []string `yaml:"profiles" format:"non-empty" single:"true" doc:"the only profiles that the principal gets, by name; at /mcp the first of them, unless another one of them is chosen there; without it all"`

	at *mapping // in the file
}

// ImpliedScope is a scope that implies others.
type ImpliedScope struct {
	Scope   string   `yaml:"scope" format:"scope" doc:"a scope"`
	Implies []string `yaml:"implies" format:"scope" doc:"scopes that it implies"`
}

// TLS says how MCP is served over TLS. The gateway reads the files again when they change.
type TLS struct {
	Cert     string `yaml:"cert" doc:"file with the certificate chain, in PEM; empty means plain HTTP"`
	Key      string `yaml:"key" doc:"file with the private key, in PEM"`
	ClientCA string `yaml:"client_ca" doc:"file with the authorities of client certificates, in PEM; without mode mtls every client needs one"`
}

// On reports whether TLS is on.
func (t TLS) On() bool { return t.Cert != "" }

var (
	digest    = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	scopeForm = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,256}$`) // RFC 6749, section 3.3
	subject   = regexp.MustCompile(`^[^\x00-\x1f\x7f-\x{9f}]{1,256}$`)
)

// CheckSubject returns why a text cannot be the id or the subject of an API key, nil if it can.
func CheckSubject(text string) error {
	_, err := formats["subject"](text)
	return err
}

// expiry checks a day or a time.
func expiry(s string) (string, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format(time.RFC3339), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "", errors.New("must be a day, such as 2027-01-31, or a time, such as 2027-01-31T18:00:00Z")
	}
	return t.Format(time.RFC3339), nil
}

// secureURL checks an https URL, or an http URL on this machine.
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

// issuerURL checks the identifier of an issuer (RFC 8414, section 2).
func issuerURL(s string) (string, error) {
	if _, err := secureURL(s); err != nil {
		return "", err
	}
	if s == "" || strings.Contains(s, "?") {
		return "", errors.New("must be an https URL without a query, such as https://idp.example.com")
	}
	return s, nil
}

// network checks a range of addresses, or one address.
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

// needs reports required keys that are missing.
func (m *mapping) needs(keys ...string) {
	for _, key := range keys {
		if !m.has(key) && !m.intended[key] {
			m.errorf("", "needs %s", key)
		}
	}
}

// check demands an id and a digest.
func (k *APIKey) check(m *mapping) {
	m.needs("id", "sha256")
	k.at = m
}

func (s *ImpliedScope) check(m *mapping) { m.needs("scope", "implies") }

func (j *JWT) check(m *mapping) {
	m.needs("issuer")
	j.at = m
}

// check requires exactly one kind of name, and at least as many * in the name as in the subject.
func (c *MTLS) check(m *mapping) {
	c.at = m
	var given []string
	glob := ""
	for _, n := range []struct{ key, glob string }{{"cn", c.CN}, {"dns", c.DNS}, {"uri", c.URI}, {"email", c.Email}} {
		if m.has(n.key) || m.intended[n.key] {
			given, glob = append(given, n.key), n.glob
		}
	}
	switch {
	case len(given) == 0:
		m.errorf("", "needs a name of the certificate: cn, dns, uri or email")
	case len(given) > 1:
		m.errorf(given[1], "an entry has one kind of name; write another entry for this one")
	case glob != "" && strings.Count(c.Subject, "*") > strings.Count(glob, "*"):
		m.errorf("subject", "has more * than %s, whose matches they stand for", given[0])
	}
}

// check checks the modes and the keys that they need.
func (a *Auth) check(m *mapping) {
	if len(a.Mode) == 0 {
		if m.has("mode") {
			m.errorf("mode", "names no mode; write none for no authentication")
		}
		a.Mode = []AuthMode{AuthNone}
	}
	for i, mode := range a.Mode {
		if slices.Contains(a.Mode[:i], mode) {
			m.errorf("mode", "names %s twice", mode)
		}
	}
	if len(a.Mode) > 1 && a.Has(AuthNone) {
		m.errorf("mode", "none cannot be combined: with it no client has to authenticate")
	}
	for _, n := range []struct {
		mode  AuthMode
		key   string
		given bool
	}{{AuthKey, "api_keys", len(a.APIKeys) > 0}, {AuthJWT, "jwt", len(a.JWT) > 0}, {AuthMTLS, "mtls", len(a.MTLS) > 0}} {
		switch {
		case a.Has(n.mode) && !n.given && m.has(n.key):
			m.errorf(n.key, "is empty, but mode %s needs an entry", n.mode)
		case a.Has(n.mode) && !n.given && !m.intended[n.key]:
			m.errorf("mode", "%s needs auth.%s", n.mode, n.key)
		case !a.Has(n.mode) && n.given:
			m.warnf(n.key, "has no effect: auth.mode does not name %s", n.mode)
		}
	}
	if a.Insecure && !a.Has(AuthNone) {
		m.warnf("insecure", "has no effect: it is for mode none")
	}
	a.checkDuplicates()
}

// checkDuplicates demands that keys, their ids and issuers are unique, and warns of keys of one subject that differ.
func (a *Auth) checkDuplicates() {
	ids, digests, issuers := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	subjects := make(map[string]APIKey) // the first valid key of each
	for _, k := range a.APIKeys {
		if ids[k.ID] && k.ID != "" {
			k.at.errorf("id", "the id %[1]s occurs twice; give each key its own, and a second key of the same principal subject: %[1]s", configfile.Quote(k.ID))
		}
		if digests[k.SHA256] && k.SHA256 != "" {
			k.at.errorf("sha256", "another id has the same key as %s", configfile.Quote(k.ID))
		}
		ids[k.ID], digests[k.SHA256] = true, true
		if at := k.ExpiresAt(); !at.IsZero() && time.Now().After(at) {
			k.at.warnf("", "the key %s has expired", configfile.Quote(k.ID))
			continue
		}
		first, known := subjects[k.EffectiveSubject()]
		if !known {
			subjects[k.EffectiveSubject()] = k
		} else if differ := k.Differs(first); len(differ) > 0 {
			k.at.warnf(differ[0], "the keys %s and %s have the subject %s, but not the same %s: give both the same, or each its own subject, since rules, limits, sessions and grants go by the subject",
				configfile.Quote(first.ID), configfile.Quote(k.ID), configfile.Quote(k.EffectiveSubject()), listed(differ))
		}
	}
	for _, j := range a.JWT {
		if issuers[j.Issuer] && j.Issuer != "" {
			j.at.errorf("issuer", "the issuer %s occurs twice; put its audiences into one entry", configfile.Quote(j.Issuer))
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
		m.errorf("client_ca", "needs cert and key: clients send certificates only over TLS")
	}
	for _, f := range []*string{&t.Cert, &t.Key, &t.ClientCA} {
		*f = inFolder(m.d.dir, *f)
	}
}

// checkAuth checks the keys that authentication needs in the rest of the file.
func (doc *document) checkAuth(m *mapping) {
	a := &doc.Auth
	if a.Has(AuthMTLS) && doc.TLS.ClientCA == "" && !m.intended["tls"] {
		m.errorf("auth", "mode mtls needs tls.client_ca, the authorities of the clients' certificates")
	}
	for _, j := range a.JWT {
		if a.Has(AuthJWT) && len(j.Audience) == 0 && doc.PublicURL == "" && !m.intended["public_url"] && !j.at.intended["audience"] {
			j.at.errorf("audience", "needs audience, the name of this gateway in tokens, or public_url: tokens for others must not be accepted")
		}
	}
	if !a.Has(AuthNone) && !isLoopback(doc.Listen) && !doc.TLS.On() && !strings.HasPrefix(doc.PublicURL, "https:") {
		m.warnf("listen", "credentials would travel in clear text: set tls, or set public_url to the https URL of the proxy in front")
	}
}
