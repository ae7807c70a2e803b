package granting

import (
	"context"
	"time"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// Upstream is an upstream that each principal has to grant access to. It implements router.Granter.
type Upstream struct {
	*upstream.Sessions
	name        string
	credentials *credentials.Source
	web         *credentials.Web
	since       time.Time
}

var _ router.Granter = (*Upstream)(nil)

// NoSession is the session of calls that need a grant first.
const NoSession = "no-grant"

// New returns an upstream whose grants are in source. Principals give them on the pages of web, which is nil if nobody serves them.
func New(name string, sessions *upstream.Sessions, source *credentials.Source, web *credentials.Web) *Upstream {
	return &Upstream{Sessions: sessions, name: name, credentials: source, web: web, since: time.Now()}
}

// Session implements router.Upstream. A principal without a grant gets NoSession, and so does who
// calls in the name of another.
func (u *Upstream) Session(ctx context.Context, c *call.Call) (string, error) {
	if c.WithoutGrants || u.credentials.NeedsGrant(c.Principal) {
		return NoSession, nil
	}
	return u.Sessions.Session(ctx, c)
}

// NeedsGrant implements router.Granter.
func (u *Upstream) NeedsGrant(p *call.Principal) bool { return u.credentials.NeedsGrant(p) }

// GrantRequest implements router.Granter.
func (u *Upstream) GrantRequest() router.Upstream { return grantRequest{u} }

// grantRequest answers each call with a request for the grant.
type grantRequest struct{ *Upstream }

// Session implements router.Upstream.
func (grantRequest) Session(context.Context, *call.Call) (string, error) { return NoSession, nil }

// Do implements router.Upstream.
func (r grantRequest) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	switch {
	case c.WithoutGrants:
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
func (u *Upstream) Do(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Session == NoSession || c.WithoutGrants {
		if c.WithoutGrants || u.credentials.NeedsGrant(c.Principal) {
			return grantRequest{u}.Do(ctx, c)
		}
		name, err := u.Sessions.Session(ctx, c)
		if err != nil {
			return call.Result{}, err
		}
		copied := *c
		copied.Session, c = name, &copied
	}
	before := u.credentials.StepUps(c.Principal)
	res, err := u.Sessions.Do(ctx, c)
	if err != nil && ctx.Err() == nil && (u.credentials.NeedsGrant(c.Principal) || u.credentials.StepUps(c.Principal) > before) {
		err = u.grantError(ctx, c) // the grant has expired, or lacks a scope
	}
	return res, err
}

// grantError returns the error of a call whose principal has to open a page first
// (2025-11-25, client/elicitation, "URL Elicitation Required Error"). The router translates
// it for modern clients. Clients without URL elicitation get an error that says what to do and,
// as for modern clients, names the capability that they need to get the page.
func (u *Upstream) grantError(ctx context.Context, c *call.Call) error {
	retryable, lost := wire.Raw("false"), u.credentials.Lost(ctx, c.Principal, false)
	reason := "it needs a grant from you on a page in a browser; use a client that can open one (URL elicitation)"
	canOpen := c.Client.Era() == wire.EraModern || c.Client.Revision == wire.Rev20251125 && c.Client.Can("elicitation", "url")
	switch {
	case u.web == nil:
		reason = "it needs a grant of " + c.Principal.Subject + ", who has to call a running gateway, such as with --url, and open the page that it names"
	case canOpen:
		at, id, err := u.web.Link(ctx, c.Principal, u.name)
		if err == nil {
			e := u.elicitationError(at, id)
			switch needs := "upstream " + u.name + " needs a grant of its user"; {
			case lost != "":
				e.Detail = needs + ": " + lost
			case !c.Client.Can("elicitation", "url"): // the router says so
				e.Detail = needs
			}
			return e
		}
		reason = "it needs a grant from you, and the page for it cannot be made: " + err.Error()
		if credentials.IsAway(err) {
			retryable = wire.Raw("true")
		}
	}
	if !upstream.Proved(c.Principal) {
		reason = "it needs a grant of its user: run gateway login " + u.name + advice.ConfigFlag() + ", then call again"
	}
	if lost != "" {
		reason = lost + ": " + reason
	}
	err := u.refusal(retryable, reason)
	if !canOpen && u.web != nil {
		err.Err.Data = wire.SetMember(err.Err.Data, "requiredCapabilities", wire.Raw(`{"elicitation":{"url":{}}}`))
	}
	return err
}

// refusal returns the error of a call that the upstream does not get. retryable is true or false.
func (u *Upstream) refusal(retryable wire.Raw, reason string) *call.GrantRequired {
	data := wire.SetMember(wire.Raw(`{}`), "upstream", wire.String(u.name))
	data = wire.SetMember(data, "reason", wire.String(reason))
	data = wire.SetMember(data, "since", wire.String(u.since.UTC().Format(time.RFC3339)))
	data = wire.SetMember(data, "retryable", retryable)
	return &call.GrantRequired{Err: wire.Errorf(wire.CodeInternal, "upstream %s: %s", u.name, reason).WithData(data)}
}

// elicitationError returns the error that names the page to open.
func (u *Upstream) elicitationError(at, id string) *wire.Error {
	q := wire.SetMember(wire.Raw(`{"mode":"url"}`), "message", wire.String("Open this page and log in, to grant access on your behalf."))
	q = wire.SetMember(q, "url", wire.String(at))
	q = wire.SetMember(q, "elicitationId", wire.String(id))
	list := append(append(wire.Raw{'['}, q...), ']')
	return wire.Errorf(wire.CodeURLElicitation, "upstream %s needs a grant of its user: open the page, then call again", u.name).
		WithData(wire.SetMember(wire.Raw(`{}`), "elicitations", list))
}
