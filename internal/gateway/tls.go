package gateway

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/tlsfiles"
	"mcpgateway/internal/upstream/transport/httpconn"
)

// newCertificates reads the files of the key tls. With auth.mode mtls, a client without a
// certificate may connect, and HTTP tells it which authentication is required. Otherwise
// client_ca makes a certificate mandatory.
func newCertificates(cfg *config.Config, log *zap.Logger) (*tlsfiles.Files, error) {
	return tlsfiles.Server(tlsfiles.ServerOptions{
		Cert: cfg.TLS.Cert, Key: cfg.TLS.Key, ClientCA: cfg.TLS.ClientCA, ClientCertOptional: cfg.Auth.Has(config.AuthMTLS),
	}, log)
}

// failingTLS says that new files of the key tls cannot be used, "" if the files are in use.
func (g *Gateway) failingTLS() string {
	if g.certs == nil {
		return ""
	}
	err := g.certs.Failure()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("new TLS files cannot be used; the certificate in use expires at %s: %v", tlsfiles.FirstExpiry(g.certs.Get).UTC().Format(time.RFC3339), err)
}

// certificateExpires returns when the certificate of the key tls that is in use expires, nil without one.
func (g *Gateway) certificateExpires() *time.Time {
	if g.certs == nil {
		return nil
	}
	if at := tlsfiles.FirstExpiry(g.certs.Get).UTC(); !at.IsZero() {
		return &at
	}
	return nil
}

// certificateRenewed returns when changed files of the key tls were taken into use, nil if an answer has said so before.
func (g *Gateway) certificateRenewed() *time.Time {
	if g.certs == nil {
		return nil
	}
	at := g.certs.Renewed()
	if at.IsZero() || g.certsTold.Swap(at.UnixNano()) == at.UnixNano() {
		return nil
	}
	at = at.UTC()
	return &at
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

// upstreamTLS returns the configuration of TLS toward an upstream, a *tlsfiles.Files; nil if the keys ca and
// client_cert are not set.
func upstreamTLS(name string, u config.Connection, log *zap.Logger) httpconn.TLS {
	if u.CA == "" && u.ClientCert.Cert == "" {
		return nil
	}
	return tlsfiles.Client(tlsfiles.ClientOptions{
		CA: u.CA, CAName: "ca", Cert: u.ClientCert.Cert, Key: u.ClientCert.Key, CertName: "client_cert",
	}, log.With(zap.String("upstream", name)))
}

// filesToward are the files of TLS toward a server, below a key of the configuration.
func filesToward(key string, c config.ClientTLS, log *zap.Logger) *tlsfiles.Files {
	return tlsfiles.Client(tlsfiles.ClientOptions{
		CA: c.CA, CAName: key + ".ca", Cert: c.Cert, Key: c.Key, CertName: key + ".cert",
	}, log)
}
