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

// lookEvery is how often, at most, files of certificates are looked at.
const certCheckInterval = time.Second

// certificates serve TLS with files that may change: a handshake looks whether they
// have. New files that cannot be used are reported, and the old ones stay in use.
type certificateFiles struct {
	files config.TLS
	need  tls.ClientAuthType // with client_ca
	log   *zap.Logger

	mu      sync.Mutex
	current *tls.Config
	stamp   [3]fileStamp
	looked  time.Time
}

// stamp tells two states of a file apart.
type fileStamp struct {
	changed time.Time
	size    int64
}

// newCertificates reads the files. Where client certificates are proof, clients may
// come without, and then they are told by HTTP what is asked for; else all need one.
func newCertificates(cfg *config.Config, log *zap.Logger) (*certificateFiles, error) {
	c := &certificateFiles{files: cfg.TLS, need: tls.RequireAndVerifyClientCert, log: log}
	if cfg.Auth.Has(config.AuthMTLS) {
		c.need = tls.VerifyClientCertIfGiven
	}
	c.stamp, c.looked = c.look(), time.Now()
	var err error
	c.current, err = c.read()
	return c, err
}

// CheckTLS says why the files of the key tls cannot be used; nil when they can be, or
// there are none.
func CheckTLS(cfg *config.Config) error {
	if !cfg.TLS.On() {
		return nil
	}
	_, err := newCertificates(cfg, zap.NewNop())
	return err
}

// config is what a server is given.
func (c *certificateFiles) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetConfigForClient: c.forClient}
}

// protocols are those of HTTP, best first.
var protocols = []string{"h2", "http/1.1"}

// forClient returns the configuration of one handshake.
func (c *certificateFiles) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certCheckInterval {
		c.looked = now
		c.renew()
	}
	return c.current, nil
}

// renew reads the files when they have changed. The caller holds mu.
func (c *certificateFiles) renew() {
	stamp := c.look()
	if stamp == c.stamp {
		return
	}
	next, err := c.read()
	if err != nil {
		// It is looked at again with the next change: files are not always
		// replaced all at once.
		c.log.Warn("new TLS files cannot be used, the old ones stay in use", zap.Error(err))
	} else {
		c.current = next
		c.log.Info("TLS files have changed and are in use")
	}
	c.stamp = stamp
}

func (c *certificateFiles) look() [3]fileStamp {
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
	out.ClientCAs, out.ClientAuth = x509.NewCertPool(), c.need
	if !out.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("tls.client_ca: " + c.files.ClientCA + " has no certificates in PEM")
	}
	return out, nil
}
