package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"go.uber.org/zap"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/origin"
)

// The paths that MCP is served at.
const (
	pathMCP = "/mcp"
	pathSSE = "/sse"
)

// newAuthenticator translates what the configuration says of proof. It is nil where
// none is asked for.
func newAuthenticator(cfg *config.Config, log *zap.Logger, m *auth.Metrics) (*auth.Authenticator, error) {
	a := &cfg.Auth
	if a.Has(config.AuthNone) {
		return nil, nil
	}
	o := auth.Options{PublicURL: cfg.PublicURL, Paths: []string{pathMCP, pathSSE}, Logger: log, Metrics: m}
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

// setKeys has the API keys of a configuration hold, and ends what was opened with
// others.
func (g *Gateway) setKeys(cfg *config.Config) error {
	if g.auth == nil || !cfg.Auth.Has(config.AuthKey) {
		return nil
	}
	withdrawn, err := g.auth.SetKeys(keysOf(&cfg.Auth))
	if err == nil && len(withdrawn) > 0 {
		g.front.Withdraw(withdrawn)
	}
	return err
}

func impliedScopes(cfg *config.Config) (all []auth.ImpliedScopes) {
	for _, s := range cfg.Auth.Scopes {
		all = append(all, auth.ImpliedScopes{Scope: s.Scope, Implies: s.Implies})
	}
	return all
}

// Assume returns a principal, who proves nothing, as a proof of the configuration
// would have made it: with the scopes that its scopes imply, and, where p does not
// say otherwise, the proof that is asked for, and the issuer where there is but one.
func AssumedPrincipal(cfg *config.Config, p *call.Principal) *call.Principal {
	out := *p
	out.Scopes = auth.Imply(impliedScopes(cfg), p.Scopes)
	if a := &cfg.Auth; out.Proof == "" {
		out.Proof = string(a.Mode[0])
		if p.Issuer != "" && a.Has(config.AuthJWT) {
			out.Proof = string(config.AuthJWT)
		}
	}
	if out.Proof == auth.ProofToken && out.Issuer == "" && len(cfg.Auth.JWT) == 1 {
		out.Issuer = cfg.Auth.JWT[0].Issuer
	}
	return &out
}

// audiences are the names of this gateway in tokens of an issuer: those that are
// configured, else the URLs that clients use as the resource that they ask a token
// for.
func audiences(cfg *config.Config, j config.JWT) []string {
	if len(j.Audience) > 0 || cfg.PublicURL == "" {
		return j.Audience
	}
	return []string{cfg.PublicURL, cfg.PublicURL + "/", cfg.PublicURL + pathMCP, cfg.PublicURL + pathSSE}
}

// sayWhoMay logs how clients prove who they are, and warns where they need not.
func (g *Gateway) logAuthModes() {
	if g.auth == nil && !origin.OnLoopback(g.cfg.Listen) {
		g.log.Warn("auth.insecure: everyone who can reach this address may call, without any proof of who they are", zap.String("listen", g.cfg.Listen))
		return
	}
	g.log.Info("proof that clients give", zap.Any("modes", g.cfg.Auth.Mode), zap.Bool("tls", g.cfg.TLS.On()))
}

// forwarded puts what trusted proxies say of a request in the place of what the
// connection says: the address and the host of the client, and as the scheme of the
// URL how it came. From others nothing of it is believed.
func (g *Gateway) trustForwarded(next http.Handler) http.Handler {
	var trusted trustedProxies
	for _, n := range g.cfg.TrustedProxies {
		trusted = append(trusted, netip.MustParsePrefix(n)) // config has checked its form
	}
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && trusted.has(from.Addr()) {
			r = trusted.forwardedRequest(r)
		}
		next.ServeHTTP(w, r)
	})
}

// proxies are networks of proxies that are believed.
type trustedProxies []netip.Prefix

func (p trustedProxies) has(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, n := range p {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// told returns a request as a trusted proxy tells of it. Proxies append to what they
// got, so what counts stands last: of addresses the last one that is no trusted
// proxy itself.
func (p trustedProxies) forwardedRequest(r *http.Request) *http.Request {
	out := *r
	u := *r.URL
	out.URL = &u
	hops := elements(r.Header["X-Forwarded-For"])
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(hops[i])
		if err != nil {
			break
		}
		out.RemoteAddr = net.JoinHostPort(addr.Unmap().String(), "0")
		if !p.has(addr) {
			break
		}
	}
	if hosts := elements(r.Header["X-Forwarded-Host"]); len(hosts) > 0 {
		if host := hosts[len(hosts)-1]; host != "" && !strings.ContainsAny(host, "/\\?#@\"<> \t") {
			out.Host = host
		}
	}
	if protos := elements(r.Header["X-Forwarded-Proto"]); len(protos) > 0 {
		if proto := strings.ToLower(protos[len(protos)-1]); proto == "http" || proto == "https" {
			u.Scheme = proto
		}
	}
	return &out
}

// elements returns the elements of a header that is a list.
func elements(lines []string) []string {
	var all []string
	for _, line := range lines {
		for e := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(e))
		}
	}
	return all
}
