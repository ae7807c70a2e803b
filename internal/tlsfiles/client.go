package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"go.uber.org/zap"
)

// ClientOptions name the files of TLS toward a server, each of which may be "".
type ClientOptions struct {
	CA        string // the authorities of the server's certificate; "" for those of the system
	Cert, Key string // the certificate that the gateway shows

	// CAName and CertName are the keys of the configuration with which errors begin, "" for none.
	CAName, CertName string
}

// Client returns the files of TLS toward a server. Nothing is read before the first Get, so
// that a missing file is a matter of that server alone.
func Client(o ClientOptions, log *zap.Logger) *Files {
	return &Files{files: []string{o.CA, o.Cert, o.Key}, log: log, read: o.read}
}

func (o ClientOptions) read() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if o.CA != "" {
		if out.RootCAs, err = readPool(o.CAName, o.CA); err != nil {
			return nil, err
		}
	}
	if o.Cert != "" {
		pair, err := readPair(o.CertName, o.Cert, o.Key)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Roots returns the authorities of the system and those of a file. A file that cannot be read
// adds none. It is nil without a file.
func Roots(ca string) func() *x509.CertPool {
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
