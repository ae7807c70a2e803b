package matrix

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// certificates writes a certificate of a known authority, one of an unknown authority and an expired one, and returns their folder. The file ca.pem
// holds the known authority.
func certificates(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	ca, caKey := certificate(t, nil, nil, time.Hour)
	stranger, strangerKey := certificate(t, nil, nil, time.Hour)
	write(t, filepath.Join(dir, "ca.pem"), ca, nil)
	for name, sign := range map[string]func() (*x509.Certificate, *ecdsa.PrivateKey){
		"good":    func() (*x509.Certificate, *ecdsa.PrivateKey) { return certificate(t, ca, caKey, time.Hour) },
		untrusted: func() (*x509.Certificate, *ecdsa.PrivateKey) { return certificate(t, stranger, strangerKey, time.Hour) },
		expired:   func() (*x509.Certificate, *ecdsa.PrivateKey) { return certificate(t, ca, caKey, -time.Hour) },
	} {
		cert, key := sign()
		write(t, filepath.Join(dir, name+".pem"), cert, key)
	}
	return dir
}

// certificate returns a certificate that is valid for this time from now on, or has expired this time ago. Without a parent it is an authority.
func certificate(t testing.TB, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, valid time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "fault " + serial.String()},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(valid),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: parent == nil,
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func write(t testing.TB, file string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	if key != nil {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
