package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// newSource translates with what an upstream is called. It is nil where that does not
// depend on anything but static headers.
func newSource(u config.Upstream, at *url.URL, store *credentials.Store) (*credentials.Source, error) {
	a := u.Auth
	o := credentials.Options{
		Upstream: u.Name, URL: at, Headers: templatesOf(u.Headers), Store: store,
		Kind: map[config.CredentialKind]credentials.Kind{
			config.CredentialClient: credentials.Own, config.CredentialExchange: credentials.Exchange,
			config.CredentialEnterprise: credentials.Enterprise, config.CredentialUser: credentials.User,
		}[a.Kind],
		Authority: authorityOf(a.Client), IdP: authorityOf(a.IdP),
		Scopes: a.Scopes, Resource: a.Resource, Audience: a.Audience, SubjectType: a.SubjectToken,
	}
	if o.Kind == "" && len(o.Headers) == 0 {
		return nil, nil
	}
	return credentials.New(o)
}

func authorityOf(c config.Client) credentials.Authority {
	return credentials.Authority{Client: clientOf(c.Registration), Issuer: c.Issuer, TokenURL: c.TokenURL}
}

func clientOf(r config.Registration) credentials.Client {
	return credentials.Client{ID: r.ClientID, Secret: r.ClientSecret.Reveal(), PrivateKey: r.PrivateKey.Reveal(), KeyID: r.KeyID}
}

// templatesOf returns the headers that depend on the principal, and staticOf the
// others.
func templatesOf(headers config.Headers) map[string][]credentials.Part {
	out := make(map[string][]credentials.Part)
	for name, value := range headers {
		parts, _ := config.ParseTemplate(value.Reveal()) // config has checked its form
		if !slices.ContainsFunc(parts, func(p config.TemplatePart) bool { return p.Expression != "" }) {
			continue
		}
		for _, p := range parts {
			out[name] = append(out[name], credentials.Part(p))
		}
	}
	return out
}

func staticOf(headers config.Headers) map[string]string {
	out := reveal(headers)
	for name := range templatesOf(headers) {
		delete(out, name)
	}
	return out
}

// granting is an upstream that principals have to grant access to, each for
// themselves: calls of those who have not yet become a question to them.
type grantingUpstream struct {
	*upstream.Sessions
	name   string
	source *credentials.Source
	web    *credentials.Web
	since  time.Time
}

// sessionOfNobody is the session of calls that wait for a grant.
const noSession = "no-grant"

// Session implements router.Upstream. Whoever has no grant gets no session.
func (g *grantingUpstream) Session(ctx context.Context, c *call.Call) (string, error) {
	if g.source.Wants(c.Principal) {
		return noSession, nil
	}
	return g.Sessions.Session(ctx, c)
}

// Wants implements router.Granter.
func (g *grantingUpstream) Wants(who *call.Principal) bool { return g.source.Wants(who) }

// Question implements router.Granter.
func (g *grantingUpstream) Question() router.Upstream { return grantRequest{g} }

// asking is a granting that asks for the grant and does nothing else.
type grantRequest struct{ *grantingUpstream }

// Session implements router.Upstream.
func (grantRequest) Session(context.Context, *call.Call) (string, error) { return noSession, nil }

// Do implements router.Upstream.
func (a grantRequest) Do(_ context.Context, c *call.Call) (call.Result, error) {
	switch {
	case !a.source.Wants(c.Principal):
		return call.Result{}, catalog.UnavailableError([]catalog.Unavailable{{
			Upstream: a.name, Since: a.since, Reason: "the grant that it wanted was given while this call was under way: call again",
		}})
	case c.Method == wire.MethodComplete: // nobody is asked at every key
		return call.Result{Raw: wire.Raw(`{"completion":{"values":[]}}`)}, nil
	}
	return call.Result{}, a.ask(c)
}

// Do implements router.Upstream.
func (g *grantingUpstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Session == noSession {
		if g.source.Wants(c.Principal) {
			return grantRequest{g}.Do(ctx, c)
		}
		name, err := g.Sessions.Session(ctx, c)
		if err != nil {
			return call.Result{}, err
		}
		own := *c
		own.Session, c = name, &own
	}
	lacked := g.source.Lacks(c.Principal)
	res, err := g.Sessions.Do(ctx, c)
	if err != nil && ctx.Err() == nil && (g.source.Wants(c.Principal) || g.source.Lacks(c.Principal) > lacked) {
		err = g.ask(c) // the grant has ended, or does not reach far enough
	}
	return res, err
}

// ask is the error of a call whose principal has to open a page first (2025-11-25,
// client/elicitation, "URL Elicitation Required Error"); the router makes of it what
// other clients know. Clients that know nothing of the kind are told what to do.
func (g *grantingUpstream) ask(c *call.Call) *wire.Error {
	reason := "it wants a grant of yours, for which a page has to be opened in a browser; this client cannot be asked to (URL elicitation)"
	if opens := c.Client.Era() == wire.EraModern || c.Client.Revision == wire.Rev20251125 && c.Client.Can("elicitation", "url"); opens {
		at, id, err := g.web.Link(c.Principal, g.name)
		if err == nil {
			return g.question(at, id)
		}
		reason = "it wants a grant of yours, for which there is no page: " + err.Error()
	}
	if c.Principal.Proof == call.Anonymous.Proof || c.Principal.Proof == call.Local.Proof {
		reason = "it wants a grant of its user: run gateway login " + g.name + ", then call again"
	}
	data := wire.SetMember(wire.Raw(`{}`), "upstream", wire.String(g.name))
	data = wire.SetMember(data, "reason", wire.String(reason))
	data = wire.SetMember(data, "since", wire.String(g.since.UTC().Format(time.RFC3339)))
	data = wire.SetMember(data, "retryable", wire.Raw("false"))
	return wire.Errorf(wire.CodeInternal, "upstream %s: %s", g.name, reason).WithData(data)
}

func (g *grantingUpstream) question(at, id string) *wire.Error {
	q := wire.SetMember(wire.Raw(`{"mode":"url"}`), "message", wire.String("Open this page and log in, to grant access on your behalf."))
	q = wire.SetMember(q, "url", wire.String(at))
	q = wire.SetMember(q, "elicitationId", wire.String(id))
	list := append(append(wire.Raw{'['}, q...), ']')
	return wire.Errorf(wire.CodeURLElicitation, "upstream %s wants a grant of its user: open the page, then call again", g.name).
		WithData(wire.SetMember(wire.Raw(`{}`), "elicitations", list))
}

// newWeb returns the pages on which principals give grants.
func (g *Gateway) newWeb() (*credentials.Web, error) {
	o := credentials.WebOptions{Base: g.browserBase, Source: g.sourceOf, Given: g.grantGiven, Failed: g.grantFailed}
	for _, j := range g.cfg.Auth.JWT {
		if j.Login.ClientID != "" {
			o.Logins = append(o.Logins, credentials.BrowserLogin{
				Authority: credentials.Authority{Client: clientOf(j.Login), Issuer: j.Issuer}, Subject: j.Claims.Subject,
			})
		}
	}
	return credentials.NewWeb(o)
}

// notGiven tells the log why somebody got an error page, which they can open again
// and again.
func (g *Gateway) grantFailed(upstream string, err error) {
	g.ratelog.Info("no grant was given", zap.String("upstream", upstream), zap.Error(errors.Join(err, errors.Unwrap(err))))
}

// sourceOf returns what proves the gateway to an upstream that is configured now,
// nil for none.
func (g *Gateway) sourceOf(name string) *credentials.Source {
	if m := g.generation.Load().entry(name); m != nil {
		return m.active.Load().source
	}
	return nil
}

// routed returns the upstream of a link as calls find it.
func (g *Gateway) routedUpstream(name string, l *connection) router.Upstream {
	if l.source == nil {
		return l.sessions
	}
	return &grantingUpstream{Sessions: l.sessions, name: name, source: l.source, web: g.web, since: time.Now()}
}

// browserBase is the URL below which browsers find pages of the gateway, "" where
// that is not known.
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

// given tells the client that was asked for a grant that it was given (2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode Elicitation").
func (g *Gateway) grantGiven(upstream, id string) {
	g.log.Info("a grant was given", zap.String("upstream", upstream))
	g.principals.expireGatherings()
	params := wire.SetMember(wire.Raw(`{}`), "elicitationId", wire.String(id))
	if client, own, ok := g.router.Completed(upstream, noSession, params); ok {
		g.front.Notify(frontend.Audience{Client: client}, wire.NoteElicitComplete, own)
	}
}

// Login lets the user of this machine grant access to an upstream: show gets the URL
// that is to be opened in a browser, which comes back to a port on loopback, 0 for
// any. It returns when the grant is kept, where a gateway with this configuration
// finds it.
func Login(ctx context.Context, cfg *config.Config, name string, port int, show func(url string)) error {
	at := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == name || u.Key == name })
	if at < 0 {
		var names []string
		for _, u := range cfg.Upstreams {
			if u.Auth.Kind == config.CredentialUser {
				names = append(names, u.Name)
			}
		}
		if len(names) == 0 {
			return errors.New("there is no upstream to log in to: none has auth: {kind: user}")
		}
		return fmt.Errorf("there is no upstream %s; those that one can log in to are %s", name, strings.Join(names, ", "))
	}
	u := cfg.Upstreams[at]
	if u.Auth.Kind != config.CredentialUser {
		return fmt.Errorf("the upstream %s takes no grants of users; its configuration would need auth: {kind: user}", u.Name)
	}
	if cfg.StateDir == "" {
		return errors.New("there is no folder to keep the grant in; set state_dir")
	}
	url, err := url.Parse(u.URL)
	if err != nil {
		return fmt.Errorf("upstream %s: the url cannot be read", u.Name)
	}
	source, err := newSource(u, url, credentials.NewStore(cfg.StateDir))
	if err != nil {
		return err
	}
	return credentials.Login(ctx, source, port, show)
}
