package gateway

import (
	"go.uber.org/zap"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/origin"
)

// The paths of MCP.
const (
	pathMCP = "/mcp"
	pathSSE = "/sse"
)

// newAuthenticator translates the configuration of authentication. It returns nil if no
// authentication is required.
func newAuthenticator(cfg *config.Config, log *zap.Logger, m *auth.Metrics) (*auth.Authenticator, error) {
	a := &cfg.Auth
	if a.Has(config.AuthNone) {
		return nil, nil
	}
	o := auth.Options{PublicURL: cfg.PublicURL, Paths: []string{pathMCP, pathSSE}, Metrics: m}
	if a.Has(config.AuthKey) {
		o.Keys = keysOf(a)
	}
	if a.Has(config.AuthJWT) {
		for _, j := range a.JWT {
			o.Issuers = append(o.Issuers, auth.Issuer{
				URL: j.Issuer, Audiences: audiences(cfg, j), Algorithms: j.Algorithms, Skew: j.Skew, Claims: auth.ClaimPaths(j.Claims),
				Required: j.Required, Discovery: j.Discovery, Keys: j.JWKS,
			})
		}
	}
	if a.Has(config.AuthMTLS) {
		for _, c := range a.MTLS {
			o.Certificates = append(o.Certificates, auth.CertificateRule{
				CommonName: c.CN, DNS: c.DNS, URI: c.URI, Email: c.Email, Subject: c.Subject, Groups: c.Groups, Scopes: c.Scopes,
			})
		}
	}
	o.Hierarchy = impliedScopes(cfg)
	return auth.New(o)
}

func keysOf(a *config.Auth) (keys []auth.Key) {
	for _, k := range a.APIKeys {
		keys = append(keys, auth.Key{ID: k.ID, SHA256: k.SHA256, Groups: k.Groups, Scopes: k.Scopes, Expires: k.ExpiresAt()})
	}
	return keys
}

// setKeys replaces the API keys, and ends the sessions of keys that were removed.
func (g *Gateway) setKeys(cfg *config.Config) error {
	if g.auth == nil || !cfg.Auth.Has(config.AuthKey) {
		return nil
	}
	withdrawn, err := g.auth.SetKeys(keysOf(&cfg.Auth))
	if err == nil && len(withdrawn) > 0 {
		g.front.Revoke(withdrawn)
	}
	return err
}

func impliedScopes(cfg *config.Config) (all []auth.ImpliedScopes) {
	for _, s := range cfg.Auth.Scopes {
		all = append(all, auth.ImpliedScopes{Scope: s.Scope, Implies: s.Implies})
	}
	return all
}

// AssumedPrincipal returns p as authentication under a configuration would have made it:
// with the scopes that its scopes imply. If p does not say otherwise, it has the configured
// way of authentication, and the issuer if there is only one.
func AssumedPrincipal(cfg *config.Config, p *call.Principal) *call.Principal {
	out := *p
	out.Scopes = auth.Imply(impliedScopes(cfg), p.Scopes)
	if a := &cfg.Auth; out.AuthMethod == "" {
		out.AuthMethod = string(a.Mode[0])
		if p.Issuer != "" && a.Has(config.AuthJWT) {
			out.AuthMethod = string(config.AuthJWT)
		}
	}
	if out.AuthMethod == auth.MethodToken && out.Issuer == "" && len(cfg.Auth.JWT) == 1 {
		out.Issuer = cfg.Auth.JWT[0].Issuer
	}
	return &out
}

// audiences returns the names of this gateway in tokens of an issuer: the configured ones,
// or else the URLs that clients send as the resource when they request a token.
func audiences(cfg *config.Config, j config.JWT) []string {
	if len(j.Audience) > 0 || cfg.PublicURL == "" {
		return j.Audience
	}
	return []string{cfg.PublicURL, cfg.PublicURL + "/", cfg.PublicURL + pathMCP, cfg.PublicURL + pathSSE}
}

// logAuthModes logs how clients authenticate, and warns if they need not.
func (g *Gateway) logAuthModes() {
	if g.auth == nil && !origin.IsLoopbackHost(g.cfg.Listen) {
		g.log.Warn("auth.insecure: everyone who can reach this address may call, without authentication", zap.String("listen", g.cfg.Listen))
		return
	}
	g.log.Info("how clients authenticate", zap.Any("modes", g.cfg.Auth.Mode), zap.Bool("tls", g.cfg.TLS.On()))
}
