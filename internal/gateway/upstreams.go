package gateway

import (
	"fmt"
	"net/url"

	"mcpgateway/internal/config"
	"mcpgateway/internal/demo"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/process"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// optionsOf translates the configuration of an upstream. An upstream that lacks variables or files stays down, and says so.
func (g *Gateway) optionsOf(u config.Upstream) (upstream.Options, error) {
	if err := u.UnsetError(); err != nil {
		o := g.commonOptions(u.Name)
		o.EraKey, o.Unusable = u.ConnectionHash(), err
		return o, nil
	}
	return g.options(u.Name, u.ConnectionHash(), u.Connection)
}

// options translates the configuration of the connection to one upstream. A reload keeps the
// connection while that configuration is the same, so nothing else of the upstream is read here.
func (g *Gateway) options(name, key string, u config.Connection) (upstream.Options, error) {
	o := g.commonOptions(name)
	o.Era = map[config.Era]wire.Era{config.EraLegacy: wire.EraLegacy, config.EraModern: wire.EraModern}[u.Era]
	o.Memory, o.EraKey = g.state, key
	o.Timeout, o.MaxDuration = u.Timeout, u.MaxDuration
	if o.MaxConcurrent, o.MaxQueue = u.MaxConcurrent, u.MaxQueue; u.MaxQueue == 0 {
		o.MaxQueue = -1 // none
	}
	o.Sharing = map[config.Session]upstream.Sharing{
		config.SessionPerClient: upstream.PerClient, config.SessionPerPrincipal: upstream.PerPrincipal,
	}[u.Session]
	o.MaxSessions = u.MaxSessions
	// Without authentication there is one principal, whose lists are those of the gateway.
	o.Personal = (u.Session == config.SessionPerPrincipal || u.PerPrincipal()) && !g.cfg.Auth.Has(config.AuthNone)
	o.Serialize = u.AskCalls == config.AskSerialize
	for _, r := range u.Roots {
		o.Roots = append(o.Roots, protocol.Root{URI: r.URI, Name: r.Name})
	}
	if u.Command != "" {
		o.Stdio = &process.Config{
			Command: u.Command,
			Args:    u.Args,
			Env:     append(process.Environ(u.InheritEnv, reveal(u.Env)), g.viaEnvironment()),
			Dir:     u.Cwd,
			Limits:  process.Limits{Memory: int64(u.Limits.Memory), Files: u.Limits.Files},
		}
		return o, nil
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return o, fmt.Errorf("upstream %s: url is not a valid URL", name) // the error contains the URL, which may contain a key
	}
	for _, s := range u.URLs {
		each, err := url.Parse(s)
		if err != nil {
			return o, fmt.Errorf("upstream %s: one of urls is not a valid URL", name)
		}
		o.URLs = append(o.URLs, upstream.URL{URL: each, Name: config.RedactURL(s)})
	}
	o.HTTP = &httpconn.Config{URL: at, Headers: staticHeaders(u.Headers), TLS: upstreamTLS(name, u, g.log), Book: g.sessionBook(name)}
	o.Transport = transport.Kind(u.Transport) // both have the same names
	source, err := newCredentials(name, u, at, g.grants.Store, g.secrets.LearnToken)
	if err != nil {
		return o, err
	}
	if source != nil {
		o.HTTP.Credentials, o.NewCredentials = source, source.HasNewGrant
	}
	return o, nil
}

// commonOptions returns the options that do not depend on the kind of upstream.
func (g *Gateway) commonOptions(name string) upstream.Options {
	return upstream.Options{
		Name:         name,
		Limits:       connector.Limits{StartupWait: g.cfg.StartupWait},
		Server:       upstream.Server{MaxMessage: int(g.cfg.Limits.MaxMessage), Parse: wire.Limits{Depth: g.cfg.Limits.MaxDepth}},
		Info:         protocol.Info{Name: productName, Version: g.version},
		Logger:       g.log,
		Mask:         g.secrets.Mask,
		Metrics:      g.upstreamMetrics,
		LoopDetector: g.loopDetector,
		Hooks:        upstream.Hooks{Outside: g, AskRefused: g.routerMetrics.AskRefused},
		Scoping:      upstream.Scoping{OnlyClient: g.onlyClient, SessionIdle: g.cfg.Limits.SessionIdle},
	}
}

// demoOptions returns the options of a built-in upstream, which runs in this process.
func (g *Gateway) demoOptions(s demo.Server) upstream.Options {
	o := g.commonOptions(s.Name)
	o.Pipe = s.Start
	return o
}

// lifetimeOf translates when the connection to an upstream opens and ends.
func lifetimeOf(u config.Upstream) connector.Lifetime {
	return connector.Lifetime{Lazy: u.Start == config.StartLazy, IdleStop: u.IdleStop}
}

func healthOf(u config.Upstream) connector.HealthSettings {
	return connector.HealthSettings{Failures: u.Breaker.Failures, Open: u.Breaker.Open, Interval: u.HealthInterval}
}

func reveal(secrets map[string]config.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for k, v := range secrets {
		out[k] = v.Reveal()
	}
	return out
}
