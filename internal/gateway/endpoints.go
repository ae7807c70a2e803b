package gateway

import (
	"net/http"

	"go.uber.org/zap"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/clientauth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/wire"
)

// The paths of MCP at the default endpoint.
const (
	pathMCP = endpoint.Path
	pathSSE = endpoint.PathSSE
)

// erasOf returns the only eras of profiles that do not serve both.
func erasOf(cfg *config.Config) map[string]wire.Era {
	eras := make(map[string]wire.Era)
	for _, p := range cfg.Profiles {
		switch {
		case len(p.Eras) != 1:
		case p.Eras[0] == config.EraModern:
			eras[endpoint.IDOf(p.Name)] = wire.EraModern
		default:
			eras[endpoint.IDOf(p.Name)] = wire.EraLegacy
		}
	}
	return eras
}

// profileHosts returns the values of Host that name profiles, in the configuration and now: a
// Host that a reload adds is accepted when it leads to its profile, and not before.
func (g *Gateway) profileHosts(cfg *config.Config) (hosts []string) {
	inForce := g.endpoints.Load()
	for _, p := range cfg.Profiles {
		for _, host := range p.Hosts {
			if inForce.HasHost(host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// setEndpoints puts the endpoints of a generation in force, whose profiles have tables now.
func (g *Gateway) setEndpoints(gen *generation) {
	if g.endpoints.Swap(gen.Endpoints) != gen.Endpoints {
		g.front.Set(g.settingsOf(gen.cfg))
	}
}

// setClients applies the API keys and the rules of certificates of a new configuration, and ends
// the sessions and streams that began with credentials that it takes something from.
func (g *Gateway) setClients(before, cfg *config.Config) error {
	if g.auth == nil {
		return nil
	}
	keys, certificates, err := clientauth.Reload(g.auth, before, cfg)
	if len(keys.Revoked) > 0 {
		g.front.Revoke(keys.Revoked.Has)
	}
	if len(keys.Changed) > 0 {
		g.front.ChangeRights(keys.Changed.Has)
	}
	if len(keys.Revoked)+len(keys.Changed)+len(keys.Shortened) > 0 {
		g.front.EndStreams(keys.Shortened.Has, keys.HasSubject)
	}
	if certificates {
		g.front.ChangeRights(func(p *call.Principal) bool { return p.AuthMethod == auth.MethodCertificate })
	}
	return err
}

// anonymous sends all requests if authentication is not configured.
var anonymous = auth.NewSender(call.Anonymous)

// authenticate authenticates a request and chooses its profile. It records the principal,
// whose subscriptions, tasks and sessions are judged by the latest credentials.
func (g *Gateway) authenticate(r *http.Request) (*call.Principal, error) {
	sender, profile, err := g.senderOf(r, (*auth.Authenticator).Authenticate)
	if err != nil {
		return nil, err
	}
	return sender.In(profile), nil
}

// senderOf authenticates a request by a method of the authenticator, and chooses its profile.
func (g *Gateway) senderOf(r *http.Request, authenticate func(*auth.Authenticator, *http.Request, endpoint.Endpoint) (*auth.Sender, error)) (sender *auth.Sender, profile string, err error) {
	endpoints := g.endpoints.Load()
	sender = anonymous
	at, ok := endpoints.Find(r.URL, r.Host)
	if !ok { // a reload has removed it
		return nil, "", g.noEndpoint(sender, "the path is not served")
	}
	if g.auth != nil {
		if sender, err = authenticate(g.auth, r, at); err != nil {
			return nil, "", err
		}
		g.latest.Record(sender.Principal())
	}
	profile, ok = endpoints.Choose(at, sender.Principal().Groups, sender.Profiles)
	switch {
	case !ok:
		return nil, "", g.noEndpoint(sender, "the principal is pinned to other profiles")
	case profile != "" && g.router.Routes().Profiles[profile] == nil:
		return nil, "", g.noEndpoint(sender, "the profile is no longer served")
	}
	return sender, profile, nil
}

// noEndpoint returns the error for an endpoint that does not exist for its sender.
func (g *Gateway) noEndpoint(sender *auth.Sender, reason string) error {
	return &frontend.NoEndpoint{
		Principal: sender.Principal().Subject, Reason: reason, Answer: limitBodyTime(http.HandlerFunc(g.notFound)).ServeHTTP,
	}
}

// logAuthModes logs how clients authenticate, and warns if they need not.
func (g *Gateway) logAuthModes() {
	if g.auth == nil && !origin.IsLoopbackHost(g.cfg.Listen) {
		g.log.Warn("auth.insecure: everyone who can reach this address may call, without authentication", zap.String("listen", g.cfg.Listen))
		return
	}
	g.log.Info("how clients authenticate", zap.Any("modes", g.cfg.Auth.Mode), zap.Bool("tls", g.cfg.TLS.On()))
}
