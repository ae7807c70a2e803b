package gateway

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// grantingUpstream is an upstream that each principal has to grant access to. A call of a
// principal without a grant is answered with a request for the grant. It implements
// router.Granter.
type grantingUpstream struct {
	*upstream.Sessions
	name        string
	credentials *credentials.Source
	web         *credentials.Web
	since       time.Time
}

var _ router.Granter = (*grantingUpstream)(nil)

// noSession is the session of calls that need a grant first.
const noSession = "no-grant"

// Session implements router.Upstream. A principal without a grant gets noSession, and so does who
// calls in the name of another.
func (g *grantingUpstream) Session(ctx context.Context, c *call.Call) (string, error) {
	if c.By != "" || g.credentials.NeedsGrant(c.Principal) {
		return noSession, nil
	}
	return g.Sessions.Session(ctx, c)
}

// NeedsGrant implements router.Granter.
func (g *grantingUpstream) NeedsGrant(p *call.Principal) bool { return g.credentials.NeedsGrant(p) }

// GrantRequest implements router.Granter.
func (g *grantingUpstream) GrantRequest() router.Upstream { return grantRequest{g} }

// grantRequest answers each call with a request for the grant.
type grantRequest struct{ *grantingUpstream }

// Session implements router.Upstream.
func (grantRequest) Session(context.Context, *call.Call) (string, error) { return noSession, nil }

// Do implements router.Upstream.
func (r grantRequest) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	switch {
	case c.By != "":
		return call.Result{}, r.refusal(wire.Raw("false"), "calls need the grant of "+c.Principal.Subject+", and only their own calls use it")
	case !r.credentials.NeedsGrant(c.Principal):
		return call.Result{}, catalog.UnavailableError([]catalog.Unavailable{{
			Upstream: r.name, Since: r.since, Reason: "the grant was given while this call was in progress; call again",
		}})
	case c.Method == wire.MethodComplete: // typing must not open a page at every key
		return call.Result{Raw: wire.Raw(`{"completion":{"values":[]}}`)}, nil
	}
	return call.Result{}, r.grantError(ctx, c)
}

// Do implements router.Upstream.
func (g *grantingUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Session == noSession || c.By != "" {
		if c.By != "" || g.credentials.NeedsGrant(c.Principal) {
			return grantRequest{g}.Do(ctx, c)
		}
		name, err := g.Sessions.Session(ctx, c)
		if err != nil {
			return call.Result{}, err
		}
		copied := *c
		copied.Session, c = name, &copied
	}
	before := g.credentials.StepUps(c.Principal)
	res, err := g.Sessions.Do(ctx, c)
	if err != nil && ctx.Err() == nil && (g.credentials.NeedsGrant(c.Principal) || g.credentials.StepUps(c.Principal) > before) {
		err = g.grantError(ctx, c) // the grant has expired, or lacks a scope
	}
	return res, err
}

// grantError returns the error of a call whose principal has to open a page first
// (2025-11-25, client/elicitation, "URL Elicitation Required Error"). The router translates
// it for modern clients. Clients without URL elicitation get an error that says what to do.
func (g *grantingUpstream) grantError(ctx context.Context, c *call.Call) error {
	retryable := wire.Raw("false")
	reason := "it needs a grant from you on a page in a browser; use a client that can open one (URL elicitation)"
	if canOpen := c.Client.Era() == wire.EraModern || c.Client.Revision == wire.Rev20251125 && c.Client.Can("elicitation", "url"); canOpen {
		at, id, err := g.web.Link(ctx, c.Principal, g.name)
		if err == nil {
			return g.elicitationError(at, id)
		}
		reason = "it needs a grant from you, and the page for it cannot be made: " + err.Error()
		if credentials.IsAway(err) {
			retryable = wire.Raw("true")
		}
	}
	if !upstream.Proved(c.Principal) {
		reason = "it needs a grant of its user: run gateway login " + g.name + ", then call again"
	}
	return g.refusal(retryable, reason)
}

// refusal returns the error of a call that the upstream does not get. retryable is true or false.
func (g *grantingUpstream) refusal(retryable wire.Raw, reason string) error {
	data := wire.SetMember(wire.Raw(`{}`), "upstream", wire.String(g.name))
	data = wire.SetMember(data, "reason", wire.String(reason))
	data = wire.SetMember(data, "since", wire.String(g.since.UTC().Format(time.RFC3339)))
	data = wire.SetMember(data, "retryable", retryable)
	return &call.GrantRequired{Err: wire.Errorf(wire.CodeInternal, "upstream %s: %s", g.name, reason).WithData(data)}
}

// elicitationError returns the error that names the page to open.
func (g *grantingUpstream) elicitationError(at, id string) *wire.Error {
	q := wire.SetMember(wire.Raw(`{"mode":"url"}`), "message", wire.String("Open this page and log in, to grant access on your behalf."))
	q = wire.SetMember(q, "url", wire.String(at))
	q = wire.SetMember(q, "elicitationId", wire.String(id))
	list := append(append(wire.Raw{'['}, q...), ']')
	return wire.Errorf(wire.CodeURLElicitation, "upstream %s needs a grant of its user: open the page, then call again", g.name).
		WithData(wire.SetMember(wire.Raw(`{}`), "elicitations", list))
}

// newWeb returns the pages on which principals give grants.
func (g *Gateway) newWeb() (*credentials.Web, error) {
	o := credentials.WebOptions{Base: g.browserBase, Source: g.credentialsOf, Granted: g.grantGiven, Failed: g.grantFailed, LoggedIn: g.loggedIn, Authenticated: g.enter}
	if g.sharing != nil {
		o.Shared = g.sharing.store
	}
	for _, j := range g.cfg.Auth.JWT {
		if j.Login.ClientID != "" {
			o.Logins = append(o.Logins, credentials.BrowserLogin{
				Authority: credentials.Authority{Client: clientOf(j.Login), Issuer: j.Issuer}, Subject: j.Claims.Subject, Scopes: j.Required,
			})
		}
	}
	return credentials.NewWeb(o)
}

// grantFailed logs why a browser got an error page. A browser can open the page any number
// of times, so the line is rate-limited.
func (g *Gateway) grantFailed(upstream string, p *call.Principal, err error) {
	g.ratelog.Info("no grant was given", zap.String("upstream", upstream), zap.String("principal", p.Subject), ratelog.Profile(p.Profile), zap.Error(errors.Join(err, errors.Unwrap(err))))
}

// credentialsOf returns the credentials for an upstream of the current generation, nil for
// none.
func (g *Gateway) credentialsOf(name string) *credentials.Source {
	if e := g.generation.Load().entry(name); e != nil {
		return e.active.Load().credentials
	}
	return nil
}

// routedUpstream returns the upstream that calls on a connection use.
func (g *Gateway) routedUpstream(name string, c *connection) router.Upstream {
	var local router.Upstream = c.sessions
	if c.credentials != nil {
		local = &grantingUpstream{Sessions: c.sessions, name: name, credentials: c.credentials, web: g.web, since: time.Now()}
	}
	if g.sharing == nil {
		return local
	}
	return g.sharing.held.Upstream(name, c.sessions, local)
}

// browserBase returns the URL below which browsers reach the pages of the gateway, "" if
// none is known.
func (g *Gateway) browserBase() string {
	switch {
	case g.cfg.PublicURL != "":
		return g.cfg.PublicURL
	case g.mcp == nil:
		return ""
	}
	if at, ok := g.mcp.Addr().(*net.TCPAddr); !ok || at.IP.IsUnspecified() {
		return ""
	}
	return strings.TrimSuffix(g.URL(), pathMCP)
}

// grantGiven notifies the client that was asked for a grant (2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode Elicitation").
func (g *Gateway) grantGiven(upstream string, p *call.Principal, id string) {
	g.log.Info("a grant was given", zap.String("upstream", upstream), zap.String("principal", p.Subject), ratelog.Profile(p.Profile))
	g.principals.ExpireGatherings()
	g.elicitationCompleted(upstream, noSession, wire.SetMember(wire.Raw(`{}`), "elicitationId", wire.String(id)))
}
