package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"mcpgateway/internal/call"
)

// MethodCertificate is the AuthMethod of principals that authenticate with a client
// certificate.
const MethodCertificate = "mtls"

// CertificateRule maps client certificates to principals. Exactly one of CommonName, DNS,
// URI and Email must be set: a glob for the common name or for the alternative names of
// that type, in which * matches any characters. The first rule that matches a name
// decides.
type CertificateRule struct {
	CommonName, DNS, URI, Email string
	// Subject is the subject of the principal; "" means the matched name. Each * in it is
	// replaced by the match of the * at the same position in the glob.
	Subject string
	Groups  []string
	Scopes  []string
	// Profiles are the names of the only profiles that the principal gets; nil means all.
	Profiles []string
}

type certificateRule struct {
	names   func(*x509.Certificate) []string
	glob    *regexp.Regexp
	subject []string // the text between the stars; nil means the matched name
	groups  []string
	scopes  []string
	// profiles are those of the CertificateRule.
	profiles []string
}

func newCertificateRules(rules []CertificateRule, h hierarchy) ([]certificateRule, error) {
	var all []certificateRule
	for i, r := range rules {
		next := certificateRule{groups: r.Groups, scopes: h.expand(r.Scopes), profiles: r.Profiles}
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
				return nil, errors.New("the subject of a certificate rule has more * than its glob")
			}
		}
		all = append(all, next)
	}
	return all, nil
}

// SetCertificates replaces the rules for later requests. On error it changes nothing.
func (a *Authenticator) SetCertificates(rules []CertificateRule) error {
	next, err := newCertificateRules(rules, a.hierarchy)
	if err == nil {
		a.certs.Store(&next)
	}
	return err
}

func uris(c *x509.Certificate) []string {
	all := make([]string, len(c.URIs))
	for i, u := range c.URIs {
		all[i] = u.String()
	}
	return all
}

// certSender returns the sender of the certificate of a connection, nil if there is
// no certificate. It uses verified chains only, and checks their validity for every
// request, since connections outlive certificates.
func (a *Authenticator) certSender(tls *tlsState) (*Sender, *failure) {
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
	rules := *a.certs.Load()
	for i := range rules {
		if principal := rules[i].principal(leaf); principal != nil {
			principal.Expires = expires
			return &Sender{principal: principal, Profiles: rules[i].profiles}, nil
		}
	}
	return nil, errCertificate
}

// principal returns the principal of a certificate, nil if the rule does not match it.
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

// mayGive reports whether the rule gives some certificate this subject.
func (r *certificateRule) mayGive(subject string) bool {
	if !isPrincipalText(subject) {
		return false
	}
	if r.subject == nil {
		return r.glob.MatchString(subject)
	}
	parts := make([]string, len(r.subject))
	for i, p := range r.subject {
		parts[i] = regexp.QuoteMeta(p)
	}
	form, err := regexp.Compile(`^` + strings.Join(parts, `.*`) + `$`)
	return err == nil && form.MatchString(subject)
}
