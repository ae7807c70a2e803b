package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certName is a name in the certificate, for nginx, which checks no addresses.
const certName = "bench.test"

// certificates is a folder with the certificate of 127.0.0.1 in cert.pem, which
// is its own authority, and its key in key.pem.
type certificates struct {
	Dir string
}

func (c *certificates) cert() string { return filepath.Join(c.Dir, "cert.pem") }
func (c *certificates) key() string  { return filepath.Join(c.Dir, "key.pem") }

// newCertificates makes a certificate for the duration of a run.
func newCertificates(dir string) (*certificates, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{certName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c := &certificates{Dir: dir}
	for file, block := range map[string]*pem.Block{
		c.cert(): {Type: "CERTIFICATE", Bytes: cert},
		c.key():  {Type: "PRIVATE KEY", Bytes: keyBytes},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// serverTLS returns the configuration of a server with the certificate in dir.
func serverTLS(dir string) (*tls.Config, error) {
	c := certificates{Dir: dir}
	pair, err := tls.LoadX509KeyPair(c.cert(), c.key())
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, nil
}

// clientTLS returns the configuration of a client that trusts the certificate in
// file.
func clientTLS(file string) (*tls.Config, error) {
	trusted, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(trusted) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return &tls.Config{RootCAs: pool, ClientSessionCache: tls.NewLRUClientSessionCache(256)}, nil
}
