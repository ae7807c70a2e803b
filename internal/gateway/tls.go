package gateway

import (
	"crypto/tls"
	"fmt"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
)

// certificateFiles are the files of the key tls.
type certificateFiles struct{ *tlsFiles }

// newCertificates reads the files. With auth.mode mtls, a client without a certificate may
// connect, and HTTP tells it which authentication is required. Otherwise client_ca makes a
// certificate mandatory.
func newCertificates(cfg *config.Config, log *zap.Logger) (*certificateFiles, error) {
	t, clientAuth := cfg.TLS, tls.RequireAndVerifyClientCert
	if cfg.Auth.Has(config.AuthMTLS) {
		clientAuth = tls.VerifyClientCertIfGiven
	}
	f := &tlsFiles{files: []string{t.Cert, t.Key, t.ClientCA}, log: log}
	f.read = func() (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
		}
		out := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
		if t.ClientCA == "" {
			return out, nil
		}
		out.ClientAuth = clientAuth
		out.ClientCAs, err = readPool("tls.client_ca", t.ClientCA)
		return out, err
	}
	_, err := f.get()
	return &certificateFiles{f}, err
}

// CheckTLS returns why the files of the key tls cannot be used, nil if they can or if there
// are none.
func CheckTLS(cfg *config.Config) error {
	if !cfg.TLS.On() {
		return nil
	}
	_, err := newCertificates(cfg, zap.NewNop())
	return err
}

// config returns the configuration of a server.
func (c *certificateFiles) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetConfigForClient: c.configForClient}
}

// protocols are the versions of HTTP, the preferred one first.
var protocols = []string{"h2", "http/1.1"}

// configForClient returns the configuration of one handshake.
func (c *certificateFiles) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) { return c.get() }
