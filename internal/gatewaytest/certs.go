package gatewaytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	tmpl := template()
	tmpl.Subject = pkix.Name{CommonName: "test authority"}
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert = parse(t, create(t, tmpl, tmpl, a.key, a.key))
	return a
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Pool returns a pool that contains only this authority.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Server makes a certificate for loopback, in PEM.
func (a *Authority) Server() (cert, key []byte) {
	a.t.Helper()
	tmpl := template()
	tmpl.DNSNames, tmpl.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	k := newKey(a.t)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: create(a.t, tmpl, a.cert, k, a.key)}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Client makes a certificate of a client; with sets its names.
func (a *Authority) Client(with func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	tmpl := template()
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	with(tmpl)
	k := newKey(a.t)
	der := create(a.t, tmpl, a.cert, k, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k, Leaf: parse(a.t, der)}
}

// WriteFiles writes a certificate for loopback into cert.pem and key.pem of a folder, one of a client
// into client.pem and client-key.pem, and this authority into ca.pem. Files that exist are
// replaced as a whole, as by programs that renew certificates.
func (a *Authority) WriteFiles(dir string) {
	a.t.Helper()
	cert, key := a.Server()
	client := a.Client(func(c *x509.Certificate) { c.Subject.CommonName = "gateway" })
	clientKey, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"cert.pem": cert, "key.pem": key, "ca.pem": a.PEM(),
		"client.pem":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Certificate[0]}),
		"client-key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: clientKey}),
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file+".new", data, 0o600); err != nil {
			a.t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			a.t.Fatal(err)
		}
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func template() *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	return &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

func create(t testing.TB, tmpl, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
