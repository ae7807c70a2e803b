package webui

import (
	"net/http"
	"strings"
	"time"
)

// loginForm is what the page for the token shows.
type loginForm struct {
	Next  string
	Wrong bool // the token was
}

var loginPage = &page{path: "/login", name: "login", title: "Log in"}

func (c *Console) serveLoginForm(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if c.Token == "" || c.sessions.knows(sessionID(r), time.Now()) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	c.render(w, r, http.StatusOK, loginPage, loginForm{Next: next})
}

func (c *Console) serveLogin(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.PostFormValue("next"))
	switch {
	case c.Token == "":
	case !c.isToken(strings.TrimSpace(r.PostFormValue("token"))):
		c.render(w, r, http.StatusUnauthorized, loginPage, loginForm{Next: next, Wrong: true})
		return
	default:
		c.sessions.close(sessionID(r)) // a session of somebody else must not become this one
		setCookie(w, r, cookieName(r), c.sessions.open(time.Now()), sessionLife)
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (c *Console) serveLogout(w http.ResponseWriter, r *http.Request) {
	c.sessions.close(sessionID(r))
	setCookie(w, r, cookieName(r), "", 0)
	http.Redirect(w, r, Prefix+"/login", http.StatusSeeOther)
}

// localPath returns the path if it is one of the console, else that of the first page.
func localPath(path string) string {
	if p, u := pageFor(path); p != nil {
		return u.RequestURI()
	}
	return Prefix
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
			setCookie(w, r, themeCookie, t, 365*24*time.Hour)
		}
	}
	http.Redirect(w, r, localPath(r.PostFormValue("next")), http.StatusSeeOther)
}
