package gateway

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/granting"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/router"
	"mcpgateway/internal/webui"
	"mcpgateway/internal/wire"
)

// newWeb returns the pages on which principals give grants.
func (g *Gateway) newWeb() (*credentials.Web, error) {
	o := credentials.WebOptions{Base: g.browserBase, Source: g.credentialsOf, Granted: g.grantGiven, Failed: g.grantFailed, LoggedIn: g.loggedIn, HowToLogIn: g.howToLogIn, Authenticated: g.enter}
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

// howToLogIn says what lets the gateway know a principal in the browser that opens the link of a grant.
func (g *Gateway) howToLogIn(p *call.Principal) string {
	switch base := g.browserBase(); {
	case p.AuthMethod == auth.MethodToken:
		return "its configuration needs auth.jwt[].login for the issuer of your account"
	case p.AuthMethod == auth.MethodCertificate:
		return "open the link again in a browser that has your client certificate"
	case p.AuthMethod != auth.MethodAPIKey:
		return "clients need no credentials (auth.mode is none), so its operator has to grant access with gateway login"
	case strings.Count(base, "/") > 2: // /me does not work below a path
		return "its configuration needs a public_url without a path, so that you can log in at " + webui.MePrefix + " with your API key"
	default:
		return "log in at " + base + webui.MePrefix + " with your API key, and open the link again"
	}
}

// grantFailed logs why a browser got an error page. A browser can open the page any number
// of times, so the line is rate-limited; requests for unknown links do not hide the others.
func (g *Gateway) grantFailed(w http.ResponseWriter, upstream string, p *call.Principal, err error) {
	fields := []zap.Field{withCause(err), zap.String("request", requestid.Of(w))}
	category := "unknown link"
	if p != nil {
		category = ""
		fields = append(fields, zap.String("upstream", upstream), zap.String("principal", p.Subject), ratelog.Profile(p.Profile))
	}
	g.ratelog.LogCategory(zapcore.InfoLevel, "no grant was given", category, fields...)
}

// maxCause bounds an error with its cause in the log, in bytes.
const maxCause = 512

// withCause returns the log field of an error of credentials, whose cause is for the log only, on one line.
func withCause(err error) zap.Field {
	text := err.Error()
	if cause := errors.Unwrap(err); cause != nil {
		text += ": " + cause.Error()
	}
	return zap.String("error", plaintext.Line(text, maxCause))
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
		pages := g.web
		if g.inProcess {
			pages = nil
		}
		local = granting.New(name, c.sessions, c.credentials, pages)
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

// grantGiven logs a grant that a browser has given, and notifies the client that was asked for a grant (2025-11-25,
// client/elicitation, "Completion Notifications for URL Mode Elicitation").
func (g *Gateway) grantGiven(w http.ResponseWriter, upstream string, p *call.Principal, id string) {
	g.log.Info("a grant was given", zap.String("upstream", upstream), zap.String("principal", p.Subject), zap.String("request", requestid.Of(w)), ratelog.Profile(p.Profile))
	g.principals.ExpireGatherings()
	g.elicitationCompleted(upstream, granting.NoSession, wire.SetMember(wire.Raw(`{}`), "elicitationId", wire.String(id)))
}
