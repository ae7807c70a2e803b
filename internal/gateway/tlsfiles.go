package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
)

// certCheckInterval is the least time between two checks of the files of TLS.
const certCheckInterval = time.Second

// tlsFiles is a configuration of TLS from files that may change. Each handshake asks for it.
// New files that cannot be used are logged, and the old ones stay in use. It is safe for
// concurrent use.
type tlsFiles struct {
	files []string // "" for none
	read  func() (*tls.Config, error)
	log   *zap.Logger

	mu      sync.Mutex
	current *tls.Config // nil before the first success
	loaded  []fileStamp
	checked time.Time
}

// fileStamp identifies the content of a file.
type fileStamp struct {
	modified time.Time
	size     int64
}

// get returns the configuration, which the caller must not change. The error says which file
// cannot be used.
func (f *tlsFiles) get() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.current == nil {
		f.loaded, f.checked = f.stamps(), now
		var err error
		f.current, err = f.read()
		return f.current, err
	}
	if now.Sub(f.checked) >= certCheckInterval {
		f.checked = now
		f.renew()
	}
	return f.current, nil
}

// renew reads the files if they have changed. The caller holds mu.
func (f *tlsFiles) renew() {
	stamps := f.stamps()
	if slices.Equal(stamps, f.loaded) {
		return
	}
	next, err := f.read()
	if err != nil {
		// The next change is tried again: the files may be replaced one after the other.
		f.log.Warn("new TLS files cannot be used; the old certificates stay in use", zap.Error(err))
	} else {
		f.current = next
		f.log.Info("TLS files have changed and are in use")
	}
	f.loaded = stamps
}

func (f *tlsFiles) stamps() []fileStamp {
	all := make([]fileStamp, len(f.files))
	for i, file := range f.files {
		if info, err := os.Stat(file); err == nil {
			all[i] = fileStamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

// readPool reads a file with the certificates of authorities.
func readPool(key, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New(key + ": " + file + " has no certificates in PEM")
	}
	return pool, nil
}

// upstreamRoots returns the authorities that requests for the credentials of an upstream
// trust: those of the system, as authorization servers are often elsewhere, and those of the
// key ca. A file that cannot be read adds none. It is nil without the key.
func upstreamRoots(ca string) func() *x509.CertPool {
	if ca == "" {
		return nil
	}
	return func() *x509.CertPool {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if pem, err := os.ReadFile(ca); err == nil {
			pool.AppendCertsFromPEM(pem)
		}
		return pool
	}
}

// upstreamTLS returns the configuration of TLS toward an upstream, nil if the keys ca and
// client_cert are not set. A missing file takes down this upstream only, so nothing is read
// before the first connection.
func upstreamTLS(name string, u config.Connection, log *zap.Logger) func() (*tls.Config, error) {
	if u.CA == "" && u.ClientCert.Cert == "" {
		return nil
	}
	return upstreamFiles(name, u, log).get
}

func upstreamFiles(name string, u config.Connection, log *zap.Logger) *tlsFiles {
	ca, client := u.CA, u.ClientCert
	f := &tlsFiles{files: []string{ca, client.Cert, client.Key}, log: log.With(zap.String("upstream", name))}
	f.read = func() (*tls.Config, error) { return clientTLS("ca", ca, "client_cert", client.Cert, client.Key) }
	return f
}

// filesToward are the files of TLS toward a server, below a key of the configuration.
func filesToward(key string, c config.ClientTLS, log *zap.Logger) *tlsFiles {
	f := &tlsFiles{files: []string{c.CA, c.Cert, c.Key}, log: log}
	f.read = func() (*tls.Config, error) { return clientTLS(key+".ca", c.CA, key+".cert", c.Cert, c.Key) }
	return f
}

// clientTLS reads the files of TLS toward a server, each of which may be "". Errors begin with the key
// of the file.
func clientTLS(caKey, ca, certKey, cert, key string) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if ca != "" {
		if out.RootCAs, err = readPool(caKey, ca); err != nil {
			return nil, err
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", certKey, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
