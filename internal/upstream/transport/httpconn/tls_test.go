package httpconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"mcpgateway/internal/gatewaytest"
)

// serverOf returns the configuration of a server with a certificate of an authority, which
// demands one of it from clients.
func serverOf(t *testing.T, ca *gatewaytest.Authority) *tls.Config {
	t.Helper()
	cert, key := ca.Server()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
}

// Each handshake of a pool has the configuration of that time.
func TestTLSOfAPool(t *testing.T) {
	old, next := gatewaytest.NewAuthority(t), gatewaytest.NewAuthority(t)
	var server, client atomic.Pointer[tls.Config]
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return server.Load(), nil }}
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	of := func(ca *gatewaytest.Authority, name string) *tls.Config {
		own := ca.Client(func(c *x509.Certificate) { c.Subject.CommonName = name })
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool(), Certificates: []tls.Certificate{own}}
	}
	server.Store(serverOf(t, old))
	client.Store(of(old, "first"))

	p := NewPool(&Config{TLS: tlsFunc(func() (*tls.Config, error) {
		if c := client.Load(); c != nil {
			return c, nil
		}
		return nil, errors.New("ca: open ca.pem: no such file")
	})}, 1)
	defer p.Close()
	get := func() (string, error) {
		p.transport.CloseIdleConnections() // so that there is a handshake
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.transport.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	if got, err := get(); got != "HTTP/2.0 first" {
		t.Errorf("got %q, %v", got, err)
	}
	server.Store(serverOf(t, next))
	var unknown x509.UnknownAuthorityError
	if got, err := get(); !errors.As(err, &unknown) {
		t.Errorf("a server of another authority: %q, %v", got, err)
	}
	client.Store(of(next, "second"))
	if got, err := get(); got != "HTTP/2.0 second" {
		t.Errorf("got %q, %v", got, err)
	}
	client.Store(nil)
	if got, err := get(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a file: %q, %v", got, err)
	}
}

// tlsFunc is a TLS without files.
type tlsFunc func() (*tls.Config, error)

func (f tlsFunc) Get() (*tls.Config, error) { return f() }
