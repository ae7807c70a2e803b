package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// calls describes a path on which clients make tool calls.
type calls struct {
	Via         string        // viaDirect and so on
	Era         string        // of the clients; default: legacy
	UpstreamEra string        // default: Era
	Size        int           // bytes of text in a result
	SSE         bool          // the upstream answers with event streams
	Clients     int           // default: 16
	Every       time.Duration // between the calls of a client, see load
	Duration    time.Duration // of a measurement; default: that of all workloads
	FrontTLS    bool          // clients use TLS
	UpstreamTLS bool          // the upstream has TLS
	Stdio       bool          // the upstream is a process with lines
	HTTP2       bool          // clients use HTTP/2, over TLS
	Sessions    bool          // clients open and end sessions instead of making calls
	// Change changes the configuration of the gateway and what clients call.
	Change func(ctx context.Context, s *stage, config *gatewayConfig, t *target) error
	// Background prepares the running gateway for the calls, such as with open
	// streams.
	Background func(ctx context.Context, s *stage, g *gateway, t *target) error
}

// The ways from the clients to the upstream.
const (
	viaDirect  = "direct"
	viaReverse = "reverse"
	viaNginx   = "nginx"
	viaTyped   = "typed"
	viaGateway = "gateway"
)

// gatewayUpstream is the name of the upstream in the gateway.
const gatewayUpstream = "bench"

// path returns the path with this name.
func (c calls) path(name string) path {
	if c.Era == "" {
		c.Era = eraLegacy
	}
	if c.UpstreamEra == "" {
		c.UpstreamEra = c.Era
	}
	if c.Clients == 0 {
		c.Clients = 16
	}
	return path{Name: name, Start: c.start, Via: c.Via}
}

func (c calls) start(ctx context.Context, s *stage) (measure, error) {
	t := &target{Era: c.Era, Tools: []string{toolName}, HTTP2: c.HTTP2, callArguments: callArguments{Size: c.Size, SSE: c.SSE}}
	pid, err := c.serve(ctx, s, t)
	if err != nil {
		return nil, err
	}
	if c.FrontTLS || c.HTTP2 {
		if t.TLS, err = clientTLS(s.certs.cert()); err != nil {
			return nil, err
		}
	}
	open := t.opener()
	if c.Sessions {
		open = t.sessionOpener()
	}
	l := s.load
	l.Clients, l.Every, l.Duration = c.Clients, c.Every, cmp.Or(c.Duration, l.Duration)
	return func(ctx context.Context) (sample, error) { return l.run(ctx, pid, open) }, nil
}

// serve starts the processes of the path and sets the URL and the tools of t. It
// returns the measured process.
func (c calls) serve(ctx context.Context, s *stage, t *target) (pid int, err error) {
	front := role{}
	if c.FrontTLS || c.HTTP2 {
		front.Certs = s.certs.Dir
	}
	if c.Via == viaGateway {
		g, err := c.startGateway(ctx, s, t)
		if err != nil {
			return 0, err
		}
		return g.PID, nil
	}
	upstreamURL := roleStdio
	if !c.Stdio {
		upstream, err := s.role(ctx, c.upstream(s))
		if err != nil {
			return 0, err
		}
		if c.Via == viaDirect {
			t.URL = upstream.URL
			return upstream.PID, nil
		}
		upstreamURL = upstream.URL
	}
	if c.Via == viaNginx {
		t.URL, pid, err = s.startNginx(ctx, upstreamURL, c.nginxOptions())
		return pid, err
	}
	front.Kind, front.Target, front.Era = c.Via, upstreamURL, c.UpstreamEra
	if c.UpstreamTLS {
		front.Trust = s.certs.cert()
	}
	proxy, err := s.role(ctx, front)
	if err != nil {
		return 0, err
	}
	t.URL = proxy.URL
	return proxy.PID, nil
}

// upstream returns the role of the path's upstream.
func (c calls) upstream(s *stage) role {
	r := role{Kind: roleUpstream}
	if c.UpstreamTLS {
		r.Certs = s.certs.Dir
	}
	return r
}

func (c calls) nginxOptions() string {
	switch {
	case c.HTTP2:
		return "ssl http2"
	case c.FrontTLS:
		return "ssl"
	}
	return ""
}

// startGateway starts a gateway in front of the path's upstream.
func (c calls) startGateway(ctx context.Context, s *stage, t *target) (g *gateway, err error) {
	config := newGatewayConfig(s.newFile("gateway"))
	if c.FrontTLS || c.HTTP2 {
		config.TLS = map[string]any{"cert": s.certs.cert(), "key": s.certs.key()}
	}
	if c.Stdio {
		tool, err := config.addCommand(gatewayUpstream)
		if err != nil {
			return nil, err
		}
		t.Tools = []string{tool}
	} else {
		upstream, err := s.role(ctx, c.upstream(s))
		if err != nil {
			return nil, err
		}
		t.Tools = []string{config.addUpstream(gatewayUpstream, upstream.URL, c.UpstreamEra)}
	}
	if c.Change != nil {
		if err := c.Change(ctx, s, config, t); err != nil {
			return nil, err
		}
	}
	if g, err = s.startGateway(ctx, config); err != nil {
		return nil, err
	}
	t.URL = g.URL
	if c.Background != nil {
		if err := c.Background(ctx, s, g, t); err != nil {
			return nil, fmt.Errorf("in the background: %w", err)
		}
	}
	return g, nil
}

// everythingOn makes the gateway require API keys, have 200 rules with a
// condition, of which ten apply to each call, and write an audit.
func everythingOn(_ context.Context, s *stage, config *gatewayConfig, t *target) error {
	t.Keys = config.addKeys(16)
	config.addRules(200, 10, 1)
	config.Telemetry["audit"] = map[string]any{"file": s.newFile("audit.jsonl"), "max_files": 1}
	return nil
}
