package gateway

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/tlsfiles"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/watch"
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
	return failingFiles(g.certs)
}

// failingUpstreamTLS says of which upstreams new files of the keys ca and client_cert cannot be used, one sentence each.
func (g *Gateway) failingUpstreamTLS() []string {
	var all []string
	for _, e := range g.generation.Load().entries {
		if files := e.active.Load().tls; files != nil {
			if text := failingFiles(files); text != "" {
				all = append(all, fmt.Sprintf("upstream %s: %s", e.name, text))
			}
		}
	}
	return all
}

// failingFiles says that new files cannot be used, "" if they are in use. Files that could never be used are the reason
// why their upstream is down, which others say.
func failingFiles(files *tlsfiles.Files) string {
	if _, err := files.Get(); err != nil {
		return ""
	}
	err := files.Failure()
	if err == nil {
		return ""
	}
	stays := "the old ones stay in use"
	if at := tlsfiles.FirstExpiry(files.Get); !at.IsZero() {
		stays = "the certificate in use expires at " + at.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("new TLS files cannot be used; %s: %v", stays, err)
}

// rereadTLS reads the files of the key tls, and those toward upstreams that have files in use, although they may seem
// unchanged. Errors are logged, and the status and the answer of a reload have them.
func (g *Gateway) rereadTLS() {
	if g.certs != nil {
		_ = g.certs.Reread()
	}
	for _, e := range g.generation.Load().entries {
		files := e.active.Load().tls
		if files == nil {
			continue
		}
		if _, err := files.Get(); err == nil {
			_ = files.Reread()
		}
	}
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

// UnusableTLS returns the files of the keys ca and client_cert of an upstream that cannot be used, with the places of
// the keys.
func UnusableTLS(u config.Upstream) (all []config.UnsetVariable) {
	check := func(key string, place config.Error, must string, o tlsfiles.ClientOptions) {
		if slices.ContainsFunc(u.Unset, func(v config.UnsetVariable) bool { return v.Key == key }) {
			return // the name is not known
		}
		if _, err := tlsfiles.Client(o, zap.NewNop()).Get(); err != nil {
			place.Msg = must + ": " + err.Error()
			all = append(all, config.UnsetVariable{Key: key, Place: place})
		}
	}
	check("ca", u.CAPlace, "must name a readable file with certificates in PEM", tlsfiles.ClientOptions{CA: u.CA})
	check("client_cert", u.ClientCertPlace, "must name readable files with a certificate and its private key in PEM",
		tlsfiles.ClientOptions{Cert: u.ClientCert.Cert, Key: u.ClientCert.Key})
	return all
}

// newUnusableTLS returns what [UnusableTLS] does for an upstream whose connection a configuration changes, nil if
// the connection before is not worth keeping: the upstream was not there, lacked variables, or has never had files
// that can be used. It adds the upstream's files to read if some cannot be used, so that a repair is noticed.
func (gen *generation) newUnusableTLS(u config.Upstream, read *watch.Set) []config.UnsetVariable {
	before := gen.entry(u.Name)
	if u.Disabled || before == nil || before.unset != nil || before.conn.key == u.ConnectionHash() {
		return nil
	}
	if files := before.conn.tls; files != nil {
		if _, err := files.Get(); err != nil {
			return nil
		}
	}
	files := make(map[string][]byte)
	for _, file := range []string{u.CA, u.ClientCert.Cert, u.ClientCert.Key} {
		files[file], _ = configfile.Read(file) // nil if it cannot be read
	}
	delete(files, "")
	unusable := UnusableTLS(u) // after the files were read, so that a repair in between is noticed
	if unusable != nil {
		for file, data := range files {
			read.Note(file, data)
		}
	}
	return unusable
}

// filesToward are the files of TLS toward a server, below a key of the configuration.
func filesToward(key string, c config.ClientTLS, log *zap.Logger) *tlsfiles.Files {
	return tlsfiles.Client(tlsfiles.ClientOptions{
		CA: c.CA, CAName: key + ".ca", Cert: c.Cert, Key: c.Key, CertName: key + ".cert",
	}, log)
}
