package tlsfiles

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
)

// checkInterval is the least time between two checks of the files.
const checkInterval = time.Second

// Files is a configuration of TLS from files. Each handshake asks for it. New files that
// cannot be used are logged, and the old ones stay in use. It is safe for concurrent use.
type Files struct {
	files []string // "" for none
	read  func() (*tls.Config, error)
	log   *zap.Logger

	mu      sync.Mutex
	current *tls.Config // nil before the first success
	failed  error       // why the files as they are now cannot be used, nil if current is from them
	loaded  []stamp
	checked time.Time
	renewed time.Time // when current last replaced another configuration
}

// stamp identifies the content of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// Get returns the configuration, which the caller must not change. Files that have changed are
// read at most once per second. The error is that of the first reading, and says which file
// cannot be used.
func (f *Files) Get() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	if f.current == nil {
		return nil, f.failed
	}
	return f.current, nil
}

// Failure returns why the files as they are now cannot be used, nil if they are in use. It reads
// changed files as Get does, so that a server without new connections reports them too.
func (f *Files) Failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	return f.failed
}

// Renewed returns when changed files were last taken into use, zero if those of the start are in use.
func (f *Files) Renewed() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	return f.renewed
}

// Reread reads the files now, although they may seem unchanged, and returns what Failure does.
func (f *Files) Reread() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = time.Now()
	f.renew(true)
	return f.failed
}

// look reads the files if there is nothing in use, or if they have changed. The caller holds mu.
func (f *Files) look() {
	now := time.Now()
	if f.current == nil {
		f.loaded, f.checked = f.stamps(), now
		var next *tls.Config
		if next, f.failed = f.read(); f.failed == nil {
			f.current = next
		}
		return
	}
	if now.Sub(f.checked) >= checkInterval {
		f.checked = now
		f.renew(false)
	}
}

// renew reads the files if they have changed, or in any case. What seems unchanged and has the result that
// it had is not logged again. The caller holds mu.
func (f *Files) renew(always bool) {
	stamps := f.stamps()
	same := slices.Equal(stamps, f.loaded)
	if same && !always {
		return
	}
	next, err := f.read()
	if same && fmt.Sprint(err) == fmt.Sprint(f.failed) {
		if err == nil {
			f.current = next
		}
		return
	}
	if err != nil {
		// The next change is tried again: the files may be replaced one after the other.
		f.log.Warn("new TLS files cannot be used; the old certificates stay in use", zap.Error(err))
	} else {
		f.current, f.renewed = next, time.Now()
		f.log.Info("TLS files have changed and are in use")
	}
	f.loaded, f.failed = stamps, err
}

func (f *Files) stamps() []stamp {
	all := make([]stamp, len(f.files))
	for i, file := range f.files {
		if info, err := os.Stat(file); err == nil {
			all[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

// readPair reads a certificate and its key. The error begins with the keys of the configuration
// and names the files.
func readPair(keys, certFile, keyFile string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, below(keys, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, below(keys, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, below(keys, fmt.Errorf("%s and %s: %w", certFile, keyFile, err))
	}
	return pair, nil
}

// readPool reads a file with the certificates of authorities.
func readPool(key, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, below(key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, below(key, errors.New(file+" has no certificates in PEM"))
	}
	return pool, nil
}

// below puts a key of the configuration in front of an error, unless it is "".
func below(key string, err error) error {
	if key == "" {
		return err
	}
	return fmt.Errorf("%s: %w", key, err)
}
