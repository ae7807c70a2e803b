package webui

import (
	"context"
	"net/http"
	"time"

	"mcpgateway/internal/inspect"
	"mcpgateway/internal/requestid"
)

// Me has the functions for the page on which principals see and change their own data.
type Me struct {
	// Grants returns the upstreams that need a grant of the visitor, with the grant if there is one.
	Grants func(context.Context, *Visitor) ([]Grant, error)
	// Revoke removes the grant of the visitor for an upstream, and revokes it at its authorization
	// server. request is the request id. untold is a sentence about why the request to that server failed, or "".
	Revoke func(ctx context.Context, request string, v *Visitor, upstream string) (untold string, err error)
	// GrantURL returns the page on which the visitor gives a grant for an upstream.
	GrantURL func(ctx context.Context, v *Visitor, upstream string) (string, error)
}

// Grant is the grant of a principal for an upstream.
type Grant struct {
	Upstream string
	Given    bool
	Lost     string // why it is not given any more, "" if it is, or never was
	Issuer   string // the authorization server
	Scopes   []string
	Since    time.Time
	Expires  time.Time // of the access token, zero if it is renewed or unknown
}

var mePage = &page{path: "", name: "me", title: "Me", data: (*Console).me}

// meView has the data of the page.
type meView struct {
	*Visitor
	Limits []inspect.LimitReport
	Grants []Grant
	Said   string // about the last action
	Failed string
}

func (c *Console) me(r *http.Request) (any, error) {
	v := visitorOf(r)
	grants, err := c.Public.Me.Grants(r.Context(), v)
	if err != nil {
		return nil, err
	}
	return &meView{Visitor: v, Limits: c.Inspector.LimitsFor(v.Principal), Grants: grants}, nil
}

// serveRevoke removes a grant of the sender.
func (c *Console) serveRevoke(w http.ResponseWriter, r *http.Request) {
	upstream := r.PostFormValue("upstream")
	untold, err := c.Public.Me.Revoke(r.Context(), requestid.Of(w), visitorOf(r), upstream)
	data, failed := c.me(r)
	if failed != nil {
		c.fail(w, r, http.StatusInternalServerError, failed.Error())
		return
	}
	v, status := data.(*meView), http.StatusOK
	switch {
	case err != nil:
		v.Failed, status = "The grant for "+upstream+" is still there: "+err.Error()+".", http.StatusInternalServerError
	case untold != "":
		v.Said = "The gateway has forgotten the grant for " + upstream + ". Its authorization server was not told: " + untold + "."
	default:
		v.Said = "The grant for " + upstream + " is revoked."
	}
	c.render(w, r, status, mePage, v)
}

// serveGrant sends the browser to the page on which the sender gives a grant. It is a link and no form,
// because browsers apply the policy about forms to the authorization server too.
func (c *Console) serveGrant(w http.ResponseWriter, r *http.Request) {
	at, err := c.Public.Me.GrantURL(r.Context(), visitorOf(r), r.URL.Query().Get("upstream"))
	if err != nil {
		c.fail(w, r, http.StatusConflict, "The page for the grant cannot be opened: "+err.Error()+".")
		return
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
}
