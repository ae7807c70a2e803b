package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"
	"go.uber.org/zap"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/frontend"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/webui"
	"mcpgateway/internal/wire"
)

// newPublicUI returns the pages for people at the address of MCP, nil if clients do not authenticate: then nobody has a
// page of their own.
func (g *Gateway) newPublicUI(o webui.Options) *webui.Console {
	if g.auth == nil {
		return nil
	}
	o.Refused = func(w http.ResponseWriter, r *http.Request, _ int, _ string) {
		g.front.RefusedOnPage(w, r, g.auth.TooManyAttempts())
	}
	o.Token, o.Public = "", &webui.Public{
		Origin: originOf(g.cfg.PublicURL), Console: g.cfg.Admin.UI == config.UIPublic, Authenticate: g.authenticateVisitor,
		MayOpen: func(p *call.Principal) bool { return g.inspector.ExplainConsole(p).Decision.Allowed() },
		LoggedIn: func(w http.ResponseWriter, p *call.Principal) {
			g.log.Info("somebody logged in to the pages of the gateway", zap.String("principal", p.Subject), zap.String("method", p.AuthMethod), zap.String("request", requestid.Of(w)))
		},
		Issuers: g.loginIssuers(), BeginLogin: func(w http.ResponseWriter, r *http.Request, issuer, next string) error {
			err := g.web.BeginLogin(w, r, issuer, g.browserBase()+pathMCP, next)
			if err != nil {
				err = errors.New(forPerson(err))
			}
			return err
		},
		Me: webui.Me{Grants: g.grantsOf, Revoke: g.revokeGrant, GrantURL: g.grantURL},
	}
	if g.sharing != nil {
		o.Public.Shared = g.sharing.store
	}
	return webui.New(o)
}

// loginIssuers returns the issuers at which the gateway is registered, so that people can log in there.
func (g *Gateway) loginIssuers() (all []string) {
	for _, j := range g.cfg.Auth.JWT {
		if j.Login.ClientID != "" {
			all = append(all, j.Issuer)
		}
	}
	return all
}

// enter answers a browser that comes back from the login at an issuer.
func (g *Gateway) enter(w http.ResponseWriter, r *http.Request, next, token string, err error) {
	if err != nil {
		g.ratelog.Info("nobody logged in to the pages of the gateway", withCause(err), zap.String("request", requestid.Of(w)))
		err = errors.New(forPerson(err))
	}
	if g.public == nil || !g.hasMe() {
		g.notFound(w, r)
		return
	}
	g.public.Enter(w, r, next, token, err)
}

// originOf returns the origin of a URL, "" for none.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// routePublicUI adds the pages for people to the address of MCP.
func (g *Gateway) routePublicUI(r chi.Router) {
	if g.public == nil {
		return
	}
	pages := limitBodyTime(http.HandlerFunc(g.servePublicUI))
	paths := []string{webui.MePrefix, webui.MePrefix + "/*"}
	if g.cfg.Admin.UI == config.UIPublic {
		paths = append(paths, webui.Prefix, webui.Prefix+"/*")
	}
	for _, path := range paths {
		r.Handle(path, pages)
	}
}

func (g *Gateway) servePublicUI(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.hasMe():
		g.notFound(w, r)
	case g.front.AdmitPage(w, r):
		g.public.ServeHTTP(w, r)
	}
}

// hasMe reports whether users have their page /me: if the console is public, or an upstream needs grants of users.
func (g *Gateway) hasMe() bool {
	cfg := g.generation.Load().cfg
	takesGrants := func(u config.Upstream) bool { return u.Auth.Kind == config.CredentialUser && !u.Disabled }
	return cfg.Admin.UI == config.UIPublic || slices.ContainsFunc(cfg.Upstreams, takesGrants)
}

// authenticateVisitor authenticates a request for a page as a call at /mcp, with its own credentials or those that a
// person gave. Credentials that are refused are counted and logged as those of a call.
func (g *Gateway) authenticateVisitor(w http.ResponseWriter, r *http.Request, given string) (*webui.Visitor, error) {
	as := new(http.Request)
	*as = *r
	as.URL = &url.URL{Scheme: r.URL.Scheme, Path: pathMCP}
	if given != "" {
		as.Header = http.Header{"Authorization": {"Bearer " + given}}
	}
	sender, profile, err := g.senderOf(as, (*auth.Authenticator).AuthenticatePage)
	if err == nil {
		return &webui.Visitor{Principal: sender.In(profile), Profiles: g.profilesOf(sender)}, nil
	}
	if denied, ok := errors.AsType[*auth.Denied](err); ok {
		if denied.Missing() {
			return nil, webui.ErrNoCredentials
		}
		g.front.RefusedOnPage(w, r, err)
		return nil, webui.Refused(denied.Public())
	}
	if _, ok := errors.AsType[*frontend.NoEndpoint](err); ok {
		g.front.RefusedOnPage(w, r, err)
		return nil, webui.Refused("they are for other profiles than the one at " + pathMCP)
	}
	return nil, err
}

// loggedIn returns the principal who has logged in with a browser, nil for none.
func (g *Gateway) loggedIn(w http.ResponseWriter, r *http.Request) *call.Principal {
	if g.public == nil || !g.hasMe() {
		return nil
	}
	return g.public.PrincipalOf(w, r)
}

// profilesOf returns the names of the profiles that a sender may use.
func (g *Gateway) profilesOf(sender *auth.Sender) []string {
	endpoints := g.endpoints.Load()
	var names []string
	for _, name := range endpoints.Names() {
		at, ok := endpoints.Find(&url.URL{Path: endpoint.PathOf(endpoint.IDOf(name))}, "")
		if !ok {
			continue
		}
		chosen, ok := endpoints.Choose(at, sender.Principal().Groups, sender.Profiles)
		if name := endpoint.NameOf(chosen); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// grantsOf returns the upstreams that need a grant of a principal and that it may know.
func (g *Gateway) grantsOf(ctx context.Context, v *webui.Visitor) ([]webui.Grant, error) {
	var out []webui.Grant
	for _, u := range g.generation.Load().cfg.Upstreams {
		source := g.credentialsOf(u.Name)
		if u.Auth.Kind != config.CredentialUser || u.Disabled || source == nil {
			continue
		}
		of, given, err := source.GrantOf(ctx, v.Principal)
		if err != nil {
			return nil, errors.New("the grants cannot be read now")
		}
		if given {
			row := webui.Grant{Upstream: u.Name, Given: true, Issuer: of.Issuer, Scopes: of.Scopes, Since: of.Given}
			if !of.Renewable {
				row.Expires = of.Expires
			}
			out = append(out, row)
		} else if g.reaches(v, u.Name) {
			out = append(out, webui.Grant{Upstream: u.Name, Lost: source.Lost(ctx, v.Principal, true)})
		}
	}
	return out, nil
}

// reaches reports whether a visitor may know an upstream in one of its profiles.
func (g *Gateway) reaches(v *webui.Visitor, upstream string) bool {
	for _, name := range v.Profiles {
		id := endpoint.IDOf(name)
		table := g.inspector.Current(id)
		if table != nil && table.View(v.In(id), &call.Client{Revision: wire.ModernRevisions()[0]}).Reaches(upstream) {
			return true
		}
	}
	return false
}

// grantURL returns the page on which a visitor gives a grant.
func (g *Gateway) grantURL(ctx context.Context, v *webui.Visitor, upstream string) (string, error) {
	source := g.credentialsOf(upstream)
	if source == nil || !source.TakesGrants() || !g.reaches(v, upstream) {
		return "", errors.New("there is no server of this name that needs a grant of yours")
	}
	at, _, err := g.web.Link(ctx, v.Principal, upstream)
	return at, err
}

// revokeGrant removes the grant of a visitor.
func (g *Gateway) revokeGrant(ctx context.Context, request string, v *webui.Visitor, upstream string) (untold string, err error) {
	source := g.credentialsOf(upstream)
	if source == nil {
		return "", errors.New("there is no server of this name")
	}
	of, given, err := source.GrantOf(ctx, v.Principal)
	if err != nil || !given {
		return "", err
	}
	revoked, cause, err := source.Revoke(ctx, of)
	if err != nil {
		return "", errors.New(forPerson(err))
	}
	g.log.Info("a grant was revoked by its user", zap.String("upstream", upstream), zap.String("principal", v.Subject), zap.String("request", request), zap.Bool("revoked", revoked), zap.NamedError("untold", cause))
	g.principals.ExpireGatherings()
	return forPerson(cause), nil
}

// forPerson returns the part of an error that anybody may read, "" for nil.
func forPerson(err error) string {
	if err == nil {
		return ""
	}
	if known, ok := errors.AsType[*credentials.Error](err); ok {
		return known.Error()
	}
	return "it took too long"
}
