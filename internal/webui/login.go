package webui

import (
	"net/http"
	"time"

	"mcpgateway/internal/origin"
)

// loginForm has the data of the page for the token.
type loginForm struct {
	Next   string
	Wrong  string // what is wrong with the token
	Public bool   // it is for principals
	Clear  bool   // the browser would send it in clear text

	Issuers []issuerLink // at which people can log in instead
}

const tooManyAttempts = "There were too many attempts. Wait a minute."

// Reasons for [Options.Refused].
const (
	wrongToken   = "the token is not admin.token"
	manyAttempts = "too many logins have failed; wait a minute"
)

// takeAttempt takes an attempt to log in. It returns false if there were too many.
func (c *Console) takeAttempt(w http.ResponseWriter, r *http.Request, now time.Time) bool {
	ok := c.attempts.take(r.RemoteAddr, now)
	if !ok {
		c.Refused(w, r, http.StatusTooManyRequests, manyAttempts)
	}
	return ok
}

var loginPage = &page{path: "/login", name: "login", title: "Log in"}

func (c *Console) serveLoginForm(w http.ResponseWriter, r *http.Request) {
	next := c.localPath(r.URL.Query().Get("next"))
	known := c.Public == nil && (c.Token == "" || c.sessions.knows(c.sessionID(r), time.Now())) || c.Public != nil && c.PrincipalOf(w, r) != nil
	if known {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	c.renderLogin(w, r, http.StatusOK, loginForm{Next: next})
}

func (c *Console) renderLogin(w http.ResponseWriter, r *http.Request, status int, form loginForm) {
	if form.Public, form.Clear = c.Public != nil, c.inClear(r); form.Public {
		form.Issuers = c.issuerLinks(form.Next)
	}
	c.render(w, r, status, loginPage, form)
}

// inClear reports whether a login of a principal would cross a network in clear text.
func (c *Console) inClear(r *http.Request) bool {
	return c.Public != nil && !c.isSecure(r) && !origin.IsLoopbackHost(r.Host)
}

func (c *Console) serveLogin(w http.ResponseWriter, r *http.Request) {
	next := c.localPath(r.PostFormValue("next"))
	switch now := time.Now(); {
	case c.Public == nil && c.Token == "":
	case c.inClear(r):
		c.renderLogin(w, r, http.StatusForbidden, loginForm{Next: next})
		return
	case !c.takeAttempt(w, r, now):
		c.renderLogin(w, r, http.StatusTooManyRequests, loginForm{Next: next, Wrong: tooManyAttempts})
		return
	default:
		with, wrong := c.checkLogin(w, r)
		if wrong != "" {
			c.renderLogin(w, r, http.StatusUnauthorized, loginForm{Next: next, Wrong: wrong})
			return
		}
		if !c.begin(w, r, with, next, now) {
			return
		}
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *Console) serveLogout(w http.ResponseWriter, r *http.Request) {
	if c.endLogin(r.Context(), c.sessionID(r)) != nil {
		c.fail(w, r, http.StatusServiceUnavailable, "The gateway cannot end the login now. Try again.")
		return
	}
	c.tries.endOf(c.ownerOf(r))
	c.setCookie(w, r, c.cookieName(r), "", 0)
	http.Redirect(w, r, c.base+"/login", http.StatusSeeOther)
}

// localPath returns the path if it is one of the console, else that of the first page.
func (c *Console) localPath(path string) string {
	if p, u := pageFor(path); p != nil && (c.Public == nil || c.Public.Console) {
		return u.RequestURI()
	}
	return c.base
}

const themeCookie = "mcpgateway_theme"

// themes are the choices of colors. The first is that of the system.
var themes = []string{"auto", "light", "dark"}

// themeOf returns the theme that a browser has chosen.
func themeOf(r *http.Request) string {
	if cookie, err := r.Cookie(themeCookie); err == nil {
		for _, t := range themes {
			if t == cookie.Value {
				return t
			}
		}
	}
	return themes[0]
}

func (c *Console) serveTheme(w http.ResponseWriter, r *http.Request) {
	for _, t := range themes {
		if t == r.PostFormValue("theme") {
			c.setCookie(w, r, themeCookie, t, 365*24*time.Hour)
		}
	}
	http.Redirect(w, r, c.localPath(r.PostFormValue("next")), http.StatusSeeOther)
}
