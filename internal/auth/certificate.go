package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mcpgateway/internal/call"
)

// ProofCertificate is the proof of principals who sent a client certificate.
const MethodCertificate = "mtls"

// CertificateRule says whom certificates stand for. Exactly one of CommonName, DNS,
// URI and Email is set: a glob, in which * stands for any run of characters, of
// the common name or of an alternative name of that kind. The first rule that covers
// a name of a certificate decides.
type CertificateRule struct {
	CommonName, DNS, URI, Email string
	// Subject is that of the principal, "" for the name that was covered. Each * in
	// it becomes what the * in the same place of the glob stood for.
	Subject string
	Groups  []string
	Scopes  []string
}

type certificateRule struct {
	names   func(*x509.Certificate) []string
	glob    *regexp.Regexp
	subject []string // the pieces between what the glob's stars stood for; nil for the whole name
	groups  []string
	scopes  []string
}

func newCertificateRules(rules []CertificateRule, h hierarchy) ([]certificateRule, error) {
	var all []certificateRule
	for i, r := range rules {
		next := certificateRule{groups: r.Groups, scopes: h.expand(r.Scopes)}
		glob, n := "", 0
		for _, kind := range []struct {
			glob  string
			names func(*x509.Certificate) []string
		}{
			{r.CommonName, func(c *x509.Certificate) []string { return []string{c.Subject.CommonName} }},
			{r.DNS, func(c *x509.Certificate) []string { return c.DNSNames }},
			{r.URI, uris},
			{r.Email, func(c *x509.Certificate) []string { return c.EmailAddresses }},
		} {
			if kind.glob != "" {
				glob, next.names = kind.glob, kind.names
				n++
			}
		}
		if n != 1 {
			return nil, fmt.Errorf("certificate rule %d needs one kind of name", i+1)
		}
		parts := strings.Split(glob, "*")
		for j, p := range parts {
			parts[j] = regexp.QuoteMeta(p)
		}
		var err error
		if next.glob, err = regexp.Compile(`^` + strings.Join(parts, `(.*?)`) + `$`); err != nil {
			return nil, fmt.Errorf("certificate rule %d: %w", i+1, err)
		}
		if r.Subject != "" {
			if next.subject = strings.Split(r.Subject, "*"); len(next.subject) > len(parts) {
				return nil, errors.New("the subject of a certificate rule has more * than the name that it is made of")
			}
		}
		all = append(all, next)
	}
	return all, nil
}

func uris(c *x509.Certificate) []string {
	all := make([]string, len(c.URIs))
	for i, u := range c.URIs {
		all[i] = u.String()
	}
	return all
}

// holder returns who the certificate of a connection stands for, nil where there is
// none. A certificate counts only when its chain was verified, and is looked at anew
// for every request: connections outlive certificates.
func (a *Authenticator) certPrincipal(tls *tlsState) (*call.Principal, *failure) {
	if tls == nil || len(tls.VerifiedChains) == 0 {
		return nil, nil
	}
	now, leaf := a.now(), tls.VerifiedChains[0][0]
	expires := leaf.NotAfter
	for _, c := range tls.VerifiedChains[0] {
		if now.After(c.NotAfter) || now.Before(c.NotBefore) {
			return nil, errCertificate
		}
		if c.NotAfter.Before(expires) {
			expires = c.NotAfter
		}
	}
	for i := range a.certs {
		if who := a.certs[i].principal(leaf); who != nil {
			who.Expires = expires
			return who, nil
		}
	}
	return nil, errCertificate
}

// principal returns whom a certificate stands for by this rule, nil for nobody.
func (r *certificateRule) principal(leaf *x509.Certificate) *call.Principal {
	for _, name := range r.names(leaf) {
		m := r.glob.FindStringSubmatch(name)
		if m == nil || !isPrincipalText(name) {
			continue
		}
		subject := name
		if r.subject != nil {
			var b strings.Builder
			for i, piece := range r.subject {
				if i > 0 {
					b.WriteString(m[i])
				}
				b.WriteString(piece)
			}
			subject = b.String()
		}
		if isPrincipalText(subject) {
			return &call.Principal{Subject: subject, Groups: r.groups, Scopes: r.scopes, AuthMethod: MethodCertificate}
		}
	}
	return nil
}
