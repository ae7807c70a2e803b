package gateway

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/upstream/connector"
)

// clientFiles writes a client certificate to client.pem and client-key.pem in a folder.
func clientFiles(t *testing.T, dir string, ca *gatewaytest.Authority) {
	t.Helper()
	pair := ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = "gateway" })
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"client.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "client-key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An upstream may have a certificate of an authority that the system does not know, and demand
// one from the gateway. What is missing is in the reason why the upstream is down.
func TestTLSTowardUpstreams(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	pemFiles(t, dir, ca)
	clientFiles(t, dir, ca)
	if err := os.WriteFile(dir+"/empty.pem", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inner, _ := start(t, fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem, client_ca: %[1]s/ca.pem}\n", dir)+aDisabledUpstream, true)
	front := func(keys string) *Gateway {
		t.Helper()
		g, _ := start(t, fmt.Sprintf("upstreams:\n  inner: {url: %q%s}\n", inner.URL(), strings.ReplaceAll(keys, "DIR", dir)), false)
		return g
	}
	const own = ", client_cert: {cert: DIR/client.pem, key: DIR/client-key.pem}"
	up := front(", ca: DIR/ca.pem" + own)
	polltest.Until(t, "the upstream to settle", func() bool { return up.Upstreams()[0].State == connector.Ready })
	for keys, want := range map[string]string{
		"":                         "name a file with that authority's certificate under ca",
		own:                        "name a file with that authority's certificate under ca",
		", ca: DIR/ca.pem":         "client certificate, which you name under client_cert",
		", ca: DIR/none.pem" + own: "ca: open " + dir + "/none.pem: no such file",
		", ca: DIR/empty.pem":      "ca: " + dir + "/empty.pem has no certificates in PEM",
		", client_cert: {cert: DIR/client.pem, key: DIR/key.pem}": "client_cert: tls: private key does not match public key",
	} {
		g := front(keys)
		polltest.Until(t, "the upstream to settle", func() bool { return g.Upstreams()[0].State == connector.Down })
		if got := g.Upstreams()[0].Reason; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", keys, got, want)
		}
	}
}

// Files of TLS toward an upstream are read again when they have changed.
func TestTLSFilesOfAnUpstreamChange(t *testing.T) {
	dir, ca := t.TempDir(), gatewaytest.NewAuthority(t)
	clientFiles(t, dir, ca)
	core, logs := observer.New(zap.InfoLevel)
	f := upstreamFiles("up", config.Connection{ClientCert: config.ClientCert{Cert: dir + "/client.pem", Key: dir + "/client-key.pem"}}, zap.New(core))
	leaf := func() string {
		f.mu.Lock()
		f.checked = time.Time{} // as after certCheckInterval
		f.mu.Unlock()
		c, err := f.get()
		if err != nil {
			t.Fatal(err)
		}
		return string(c.Certificates[0].Certificate[0])
	}
	first := leaf()
	if leaf() != first || logs.Len() != 0 {
		t.Errorf("unchanged files were read again: %v", logs.All())
	}
	clientFiles(t, dir, gatewaytest.NewAuthority(t))
	if leaf() == first || logs.FilterMessage("TLS files have changed and are in use").FilterField(zap.String("upstream", "up")).Len() != 1 {
		t.Errorf("the new certificate is not in use: %v", logs.All())
	}
	if f := upstreamTLS("up", config.Connection{}, zap.NewNop()); f != nil {
		t.Error("an upstream without the keys has a configuration of its own")
	}
}
