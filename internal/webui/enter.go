package webui

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// issuerLink is an issuer at which people can log in.
type issuerLink struct{ Name, Href string }

// issuerLinks returns the issuers of the login page.
func (c *Console) issuerLinks(next string) (all []issuerLink) {
	for _, issuer := range c.Public.Issuers {
		name := issuer
		if u, err := url.Parse(issuer); err == nil && u.Host != "" {
			name = u.Host + u.EscapedPath()
		}
		all = append(all, issuerLink{name, c.base + "/login/issuer?" + url.Values{"issuer": {issuer}, "next": {next}}.Encode()})
	}
	return all
}

// serveIssuer sends the browser to an issuer, where its user logs in. It is a link and no form, because browsers apply the
// policy about forms to the issuer too.
func (c *Console) serveIssuer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	form, issuer := loginForm{Next: c.localPath(query.Get("next"))}, query.Get("issuer")
	switch {
	case !slices.Contains(c.Public.Issuers, issuer):
		c.noSuchPage(w, r)
		return
	case c.inClear(r):
		c.renderLogin(w, r, http.StatusForbidden, form)
		return
	case !c.takeAttempt(w, r, time.Now()): // each costs requests to the issuer
		form.Wrong = tooManyAttempts
		c.renderLogin(w, r, http.StatusTooManyRequests, form)
		return
	}
	if err := c.Public.BeginLogin(w, r, issuer, form.Next); err != nil {
		form.Wrong = "You cannot log in there now: " + err.Error() + "."
		c.renderLogin(w, r, http.StatusServiceUnavailable, form)
	}
}

var enteredPage = &page{name: "entered", title: "Logged in"}

// Enter answers a browser that comes back from an issuer: with an access token of its user, or with the reason why there is none.
// The token is judged as one that the user has pasted.
func (c *Console) Enter(w http.ResponseWriter, r *http.Request, next, token string, failed error) {
	setHeaders(w.Header())
	r = r.Clone(r.Context())
	r.URL = &url.URL{Scheme: r.URL.Scheme, Path: c.base + "/login"} // without the code
	form, now := loginForm{Next: c.localPath(next)}, time.Now()
	if failed != nil {
		form.Wrong = "You are not logged in: " + failed.Error() + "."
		c.renderLogin(w, r, http.StatusForbidden, form)
		return
	}
	with, wrong := c.checkVisitor(w, r, token)
	if wrong != "" {
		form.Wrong = "You have logged in at the issuer, but not here. " + wrong
		c.renderLogin(w, r, http.StatusForbidden, form)
		return
	}
	if c.begin(w, r, with, form.Next, now) {
		// A redirect would still be part of the navigation from the issuer, for which browsers keep back a cookie that is SameSite=Strict.
		w.Header().Set("Refresh", "0; url="+form.Next)
		c.render(w, r, http.StatusOK, enteredPage, form.Next)
	}
}

// begin begins the session of a person in a browser, in the place of another one. If it cannot, it answers the request.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, with session, next string, now time.Time) bool {
	c.attempts.giveBack(r.RemoteAddr)
	_ = c.endLogin(r.Context(), c.sessionID(r))
	id, err := c.openLogin(r.Context(), with, now)
	if err != nil {
		c.renderLogin(w, r, http.StatusServiceUnavailable, loginForm{Next: next, Wrong: "The gateway cannot keep a login now. Try again."})
		return false
	}
	c.setCookie(w, r, c.cookieName(r), id, sessionLife)
	return true
}
