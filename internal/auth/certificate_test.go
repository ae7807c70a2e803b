package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

// over puts a request on a connection with a verified client certificate.
func over(r *http.Request, cert tls.Certificate) *http.Request {
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}, VerifiedChains: [][]*x509.Certificate{{cert.Leaf}}}
	return r
}

func TestCertificates(t *testing.T) {
	ca := gatewaytest.NewAuthority(t)
	now := time.Now()
	a := newAuth(t, Options{
		Certificates: []CertificateRule{
			{URI: "spiffe://corp/ns/*/sa/*", Subject: "sa:*:*", Groups: []string{"agents"}},
			{DNS: "*.agents.corp", Scopes: []string{"write"}},
			{Email: "*@example.com", Subject: "*"},
			{CommonName: "admin", Subject: "root", Groups: []string{"admins"}},
		},
		Hierarchy: []ImpliedScopes{{"write", []string{"read"}}},
		Now:       func() time.Time { return now },
	})
	of := func(with func(*x509.Certificate)) *http.Request { return over(request(), ca.Client(with)) }
	uri, _ := url.Parse("spiffe://corp/ns/team/sa/bot")
	for _, tc := range []struct {
		name string
		with func(*x509.Certificate)
		want *call.Principal
	}{
		{"URI", func(c *x509.Certificate) { c.URIs = []*url.URL{uri} },
			&call.Principal{Subject: "sa:team:bot", Groups: []string{"agents"}, AuthMethod: "mtls"}},
		{"first rule wins", func(c *x509.Certificate) {
			c.URIs, c.DNSNames, c.Subject.CommonName = []*url.URL{uri}, []string{"x.agents.corp"}, "admin"
		}, &call.Principal{Subject: "sa:team:bot", Groups: []string{"agents"}, AuthMethod: "mtls"}},
		{"DNS", func(c *x509.Certificate) { c.DNSNames = []string{"y.corp", "x.agents.corp"} },
			&call.Principal{Subject: "x.agents.corp", Scopes: []string{"write", "read"}, AuthMethod: "mtls"}},
		{"mail", func(c *x509.Certificate) { c.EmailAddresses = []string{"ann@example.com"} },
			&call.Principal{Subject: "ann", AuthMethod: "mtls"}},
		{"common name", func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "admin"} },
			&call.Principal{Subject: "root", Groups: []string{"admins"}, AuthMethod: "mtls"}},
	} {
		r := of(tc.with)
		tc.want.Expires = r.TLS.VerifiedChains[0][0].NotAfter
		if diff := cmp.Diff(tc.want, accepted(t, a, r)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.name, diff)
		}
	}
	refused(t, a, of(func(c *x509.Certificate) { c.Subject.CommonName = "Admin" }), "certificate")
	refused(t, a, of(func(c *x509.Certificate) { c.DNSNames = []string{"agents.corp", "x.agents.corp.evil"} }), "certificate")
	if d := refused(t, a, request(), "missing"); d.Challenge() != `ClientCertificate realm="mcpgateway"` {
		t.Errorf("challenge %s", d.Challenge())
	}

	unverified := of(func(c *x509.Certificate) { c.Subject.CommonName = "admin" })
	unverified.TLS.VerifiedChains = nil
	refused(t, a, unverified, "missing")

	long := of(func(c *x509.Certificate) { c.Subject.CommonName = "admin" })
	now = now.Add(2 * time.Hour) // the connection outlives the certificate
	refused(t, a, long, "certificate")
}

// TestCertificatesAndTokens checks that a token and a certificate are two credentials,
// unless no rule matches the certificate or the token is bound to it.
func TestCertificatesAndTokens(t *testing.T) {
	ca, iss := gatewaytest.NewAuthority(t), gatewaytest.NewIssuer(t)
	a := forTokens(t, iss, func(o *Options) { o.Certificates = []CertificateRule{{CommonName: "admin"}} })
	token := iss.Token(audience, nil)
	admin := ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "admin" })
	nobody := ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "nobody" })
	if principal := accepted(t, a, over(request(), admin)); principal.Subject != "admin" {
		t.Errorf("got %+v", principal)
	}
	refused(t, a, over(withToken(token), admin), "two_proofs")
	if principal := accepted(t, a, over(withToken(token), nobody)); principal.Subject != "ann" {
		t.Errorf("got %+v", principal)
	}

	sum := sha256.Sum256(nobody.Leaf.Raw)
	bound := iss.Token(audience, claimSet{"cnf": claimSet{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}})
	accepted(t, a, over(withToken(bound), nobody))
	refused(t, a, withToken(bound), "bound") // also if the token is cached
	other := ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "nobody" })
	refused(t, a, over(withToken(bound), other), "bound")
}
