package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"go.uber.org/zap"
)

// ServerOptions name the files of a server.
type ServerOptions struct {
	Cert, Key string
	// ClientCA has the authorities of clients' certificates, "" for clients without one.
	ClientCA string
	// ClientCertOptional lets clients without a certificate connect, so that HTTP can tell
	// them which authentication is required. Otherwise ClientCA makes one mandatory.
	ClientCertOptional bool
}

// protocols are the versions of HTTP, the preferred one first.
var protocols = []string{"h2", "http/1.1"}

// Server reads the files of a server of HTTP. Errors begin with the key tls.
func Server(o ServerOptions, log *zap.Logger) (*Files, error) {
	f := &Files{files: []string{o.Cert, o.Key, o.ClientCA}, log: log}
	f.read = func() (*tls.Config, error) {
		pair, err := readPair("tls.cert and tls.key", o.Cert, o.Key)
		if err != nil {
			return nil, err
		}
		out := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
		if o.ClientCA == "" {
			return out, nil
		}
		out.ClientAuth = tls.RequireAndVerifyClientCert
		if o.ClientCertOptional {
			out.ClientAuth = tls.VerifyClientCertIfGiven
		}
		out.ClientCAs, err = readPool("tls.client_ca", o.ClientCA)
		return out, err
	}
	_, err := f.Get()
	return f, err
}

// ServerConfig returns the configuration of a server of HTTP that asks for the files at each
// handshake.
func (f *Files) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.Get() },
	}
}

// FirstExpiry returns when the first certificate of the chains in use expires, the zero time
// if there is none. It reads changed files as a handshake does, so that a server without new
// connections reports them too.
func FirstExpiry(get func() (*tls.Config, error)) (first time.Time) {
	conf, err := get()
	if err != nil {
		return first
	}
	for _, pair := range conf.Certificates {
		for _, der := range pair.Certificate {
			cert, err := x509.ParseCertificate(der)
			if err == nil && (first.IsZero() || cert.NotAfter.Before(first)) { // X509KeyPair has parsed the first one
				first = cert.NotAfter
			}
		}
	}
	return first
}
