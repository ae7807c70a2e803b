package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
)

// certCheckInterval is the least time between two checks of the certificate files.
const certCheckInterval = time.Second

// certificateFiles serve TLS from files that may change. A handshake checks whether they
// have. New files that cannot be used are logged, and the old certificates stay in use.
type certificateFiles struct {
	files      config.TLS
	clientAuth tls.ClientAuthType // with client_ca
	log        *zap.Logger

	mu      sync.Mutex
	current *tls.Config
	loaded  [3]fileStamp
	checked time.Time
}

// fileStamp identifies the content of a file.
type fileStamp struct {
	modified time.Time
	size     int64
}

// newCertificates reads the files. With auth.mode mtls, a client without a certificate may
// connect, and HTTP tells it which authentication is required. Otherwise client_ca makes a
// certificate mandatory.
func newCertificates(cfg *config.Config, log *zap.Logger) (*certificateFiles, error) {
	c := &certificateFiles{files: cfg.TLS, clientAuth: tls.RequireAndVerifyClientCert, log: log}
	if cfg.Auth.Has(config.AuthMTLS) {
		c.clientAuth = tls.VerifyClientCertIfGiven
	}
	c.loaded, c.checked = c.stamps(), time.Now()
	var err error
	c.current, err = c.read()
	return c, err
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
func (c *certificateFiles) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= certCheckInterval {
		c.checked = now
		c.renew()
	}
	return c.current, nil
}

// renew reads the files if they have changed. The caller holds mu.
func (c *certificateFiles) renew() {
	stamp := c.stamps()
	if stamp == c.loaded {
		return
	}
	next, err := c.read()
	if err != nil {
		// The next change is tried again: the files may be replaced one after the other.
		c.log.Warn("new TLS files cannot be used; the old certificates stay in use", zap.Error(err))
	} else {
		c.current = next
		c.log.Info("TLS files have changed and are in use")
	}
	c.loaded = stamp
}

func (c *certificateFiles) stamps() [3]fileStamp {
	var all [3]fileStamp
	for i, file := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		if info, err := os.Stat(file); err == nil {
			all[i] = fileStamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

func (c *certificateFiles) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert and tls.key: %w", err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
	if c.files.ClientCA == "" {
		return out, nil
	}
	pem, err := os.ReadFile(c.files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca: %w", err)
	}
	out.ClientCAs, out.ClientAuth = x509.NewCertPool(), c.clientAuth
	if !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("tls.client_ca: " + c.files.ClientCA + " has no certificates in PEM")
	}
	return out, nil
}
