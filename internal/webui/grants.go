package webui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/requestid"
)

var grantsPage = &page{path: "/grants", name: "grants", title: "Grants", data: (*Console).grantsOf}

// Grants are the grants of users for upstreams.
type Grants struct {
	// List returns all grants, in the order of their upstreams and principals.
	List func(ctx context.Context) ([]StoredGrant, error)
	// Revoke removes a grant, and revokes it at its authorization server if that offers it.
	// request is the request id. The error is [ErrNoGrant] if there is no grant with this id.
	Revoke func(ctx context.Context, request, id string) (Revoked, error)
}

// StoredGrant is the grant of a user for an upstream. It has no token.
type StoredGrant struct {
	ID              string // for Revoke; it is no secret
	Upstream        string
	Configured      bool // the configuration still has the upstream
	Local           bool // it is of the user of this machine, and the next three say nothing
	Subject         string
	PrincipalIssuer string
	Proof           string
	Issuer          string // the authorization server
	Scopes          []string
	Since, Expires  time.Time // Expires is that of the access token; zero: unknown
	Renewable       bool
	Used            time.Time // to the hour, zero for never
}

// Revoked is the result of the revocation of a grant.
type Revoked struct {
	Upstream string
	Issuer   string
	AtIssuer bool // the authorization server has revoked it too
}

// ErrNoGrant says that a grant is gone.
var ErrNoGrant = errors.New("there is no such grant any more")

// grantsView has the data of the page.
type grantsView struct {
	Query  string
	Grants shown[StoredGrant]
	Done   string // the upstream of the grant that was revoked
	Told   bool   // its authorization server knows
}

func (c *Console) grantsOf(r *http.Request) (any, error) {
	all, err := c.Grants.List(r.Context())
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	v := &grantsView{Query: strings.TrimSpace(query.Get("q")), Done: clip(query.Get("done"), maxLogged), Told: query.Get("told") == "yes"}
	words := strings.Fields(strings.ToLower(v.Query))
	v.Grants = firstOf(all, func(g *StoredGrant) bool {
		text := append([]string{g.Upstream, g.Subject, g.PrincipalIssuer, g.Proof, g.Issuer}, g.Scopes...)
		return containsAll(strings.ToLower(strings.Join(text, "\n")), words)
	}, func(a, b StoredGrant) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.ID, b.ID))
	})
	return v, nil
}

var revokeAction = &action{path: "/grants", name: "revoke a grant", logged: []string{"upstream", "subject", "grant"}, do: (*Console).revoke}

func (c *Console) revoke(w http.ResponseWriter, r *http.Request) {
	done, err := c.Grants.Revoke(r.Context(), requestid.Of(w), r.PostFormValue("grant"))
	switch {
	case errors.Is(err, ErrNoGrant):
		c.fail(w, r, http.StatusConflict, "Nothing was revoked: "+err.Error()+".")
		return
	case err != nil:
		c.fail(w, r, http.StatusInternalServerError, "The grant is still stored: "+err.Error())
		return
	}
	to := url.Values{"done": {done.Upstream}}
	if done.AtIssuer {
		to.Set("told", "yes")
	}
	if q := r.PostFormValue("q"); q != "" {
		to.Set("q", clip(q, maxLogged))
	}
	http.Redirect(w, r, grantsPage.href()+"?"+to.Encode(), http.StatusSeeOther)
}
