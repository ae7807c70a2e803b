package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
func newAuthenticator(cfg *config.Config, m *auth.Metrics) (*auth.Authenticator, error) {
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
// with the groups and scopes of the API key or of the certificates that give its subject, unless
// p has groups or scopes of its own, and with the scopes that its scopes imply. If p does not
// say otherwise, it has the configured way of authentication, and the issuer if there is only
// one. remarks are sentences about what does not fit the configuration.
func AssumedPrincipal(cfg *config.Config, p *call.Principal) (out *call.Principal, remarks []string, err error) {
	assumed := *p
	out = &assumed
	out.Scopes = auth.Imply(impliedScopes(cfg), p.Scopes)
	a := &cfg.Auth
	if out.AuthMethod == "" {
		out.AuthMethod = string(a.Mode[0])
		if p.Issuer != "" && a.Has(config.AuthJWT) {
			out.AuthMethod = string(config.AuthJWT)
		}
	}
	if out.AuthMethod == auth.MethodToken && out.Issuer == "" && len(a.JWT) == 1 {
		out.Issuer = a.JWT[0].Issuer
	}
	mode := config.AuthMode(out.AuthMethod)
	switch {
	case a.Has(config.AuthNone), out.AuthMethod == call.Local.AuthMethod:
		return out, nil, nil
	case !a.Has(mode):
		return out, []string{fmt.Sprintf("no client authenticates with %s: auth.mode is %s", mode, joinModes(a.Mode))}, nil
	case mode == config.AuthJWT:
		return out, nil, nil
	}
	authenticator, err := newAuthenticator(cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	what := map[config.AuthMode]string{config.AuthKey: "API key", config.AuthMTLS: "certificate"}[mode]
	known := authenticator.Configured(out.AuthMethod, p.Subject)
	own := len(p.Groups)+len(p.Scopes) > 0
	switch {
	case known == nil:
		return out, []string{fmt.Sprintf("the configuration has no %s for %q: the answer is for the groups and scopes of --as alone", what, p.Subject)}, nil
	case !own:
		out.Groups, out.Scopes = known.Groups, known.Scopes
	case !sameTexts(known.Groups, out.Groups) || !sameTexts(known.Scopes, out.Scopes):
		remarks = append(remarks, fmt.Sprintf("the %s %q has the groups %q and the scopes %q: the answer is for those of --as instead", what, p.Subject, known.Groups, known.Scopes))
	}
	out.Expires = known.Expires
	return out, remarks, nil
}

// sameTexts reports whether two lists have the same texts, in any order.
func sameTexts(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func joinModes(modes []config.AuthMode) string {
	texts := make([]string, len(modes))
	for i, m := range modes {
		texts[i] = string(m)
	}
	return strings.Join(texts, ", ")
}

// ExamineCredentials judges an API key or a token as a gateway with this configuration would.
func ExamineCredentials(ctx context.Context, cfg *config.Config, text string) (*auth.Examination, error) {
	a, err := newAuthenticator(cfg, nil)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, errors.New("auth.mode is none: the gateway reads no credentials of clients")
	}
	return a.Examine(ctx, text), nil
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
