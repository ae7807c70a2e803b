package webui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/origin"
)

// contentPolicy allows the files of the console itself, and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// protect sets the headers of all answers, and refuses requests that pages of other origins make a
// browser send. own is the origin of the gateway behind a proxy, "" if only the Host of a request is known.
func protect(own string) func(http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	if own != "" {
		_ = sameOrigin.AddTrustedOrigin(own) // the configuration has checked its form
	}
	return func(next http.Handler) http.Handler { return protected(next, sameOrigin, own) }
}

func protected(next http.Handler, sameOrigin *http.CrossOriginProtection, own string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if fromElsewhere(r, own) || sameOrigin.Check(r) != nil {
			http.Error(w, "forbidden: a page of another origin asks for this; open the console itself", http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		next.ServeHTTP(w, r)
	})
}

// setHeaders sets the headers of all answers.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send forms of the console with the Origin null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}

// maxForm bounds the forms that browsers send, in bytes.
const maxForm = 1 << 20

// fromElsewhere reports whether a browser sends the request for a page of another origin, and not because a
// person follows a link. A frame is none: its destination is not a document. Another port of this machine is
// another origin, although its requests have the cookies of this one.
func fromElsewhere(r *http.Request, own string) bool {
	if o := r.Header.Values("Origin"); len(o) > 0 {
		u, err := url.Parse(o[0])
		if len(o) > 1 || err != nil || !strings.EqualFold(u.Host, r.Host) && (own == "" || o[0] != own) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !link || r.Method != http.MethodGet && r.Method != http.MethodHead
}

// cookieName returns the name of the cookie. Browsers send cookies to all ports of a host, so two gateways on
// one machine need two names.
func (c *Console) cookieName(r *http.Request) string {
	name := "mcpgateway_console"
	if c.Public != nil {
		name = "mcpgateway_login"
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port
	}
	if c.Public != nil && c.isSecure(r) {
		return "__Host-" + name // no other host can set it
	}
	return name
}

// sessionID returns the id in the cookie of a request, "" without one.
func (c *Console) sessionID(r *http.Request) string {
	cookie, err := r.Cookie(c.cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie sets a cookie of the console. An empty value removes it.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	cookie := &http.Cookie{
		Name: name, Value: value, Path: Prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(life.Seconds()), Secure: c.isSecure(r),
	}
	if c.Public != nil {
		cookie.Path = "/" // of /me, /ui, and of the pages on which users give grants
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// isSecure reports whether the browser uses TLS. A proxy in front has TLS if it says so. If a client lies, only
// it gets a cookie that it does not return.
func (c *Console) isSecure(r *http.Request) bool {
	return r.TLS != nil || r.URL.Scheme == "https" || r.Header.Get("X-Forwarded-Proto") == "https" || c.Public != nil && strings.HasPrefix(c.Public.Origin, "https:")
}

// authenticate serves only users who may open the console. A request that changes something has the token of a
// form.
func (c *Console) authenticate(next http.Handler) http.Handler {
	admit := c.admitOperator
	if c.Public != nil {
		admit = c.admitVisitor
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r = admit(w, r); r == nil {
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if token := r.PostFormValue("csrf"); subtle.ConstantTimeCompare([]byte(token), []byte(c.formToken(r))) != 1 {
				c.fail(w, r, http.StatusForbidden, "The form is too old, or not of this console. Go back, load the page again, and repeat it.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// admitOperator returns a request to the admin address if its sender may look. If not, it answers the request and
// returns nil.
func (c *Console) admitOperator(w http.ResponseWriter, r *http.Request) *http.Request {
	switch {
	case c.Token != "":
		if !c.provesToken(r) && !c.sessions.knows(c.sessionID(r), time.Now()) {
			c.askForLogin(w, r)
			return nil
		}
	// A web page that rebound its name to loopback is local too, but its Host is not.
	case !origin.IsLocal(r) || !origin.IsLoopbackHost(r.Host):
		http.Error(w, "forbidden: set admin.token to use the console from other machines or through a proxy; "+
			"without a token, open it at 127.0.0.1 or localhost on this machine", http.StatusForbidden)
		return nil
	}
	return r
}

// askForLogin answers a request of nobody in particular.
func (c *Console) askForLogin(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.Header.Get("Accept") != "text/event-stream" {
		http.Redirect(w, r, c.base+"/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") { // a form of a page
		form := loginForm{Wrong: "Your login has ended, and nothing was sent. Log in, and fill in the form again.", Next: c.base}
		if from, err := url.Parse(r.Referer()); err == nil {
			form.Next = c.localPath(from.RequestURI())
		}
		c.renderLogin(w, r, http.StatusUnauthorized, form)
		return
	}
	http.Error(w, "unauthorized: log in at "+c.base+"/login", http.StatusUnauthorized)
}

// stillAdmitted reports whether the sender of a long request, which was admitted, may still look.
func (c *Console) stillAdmitted(w http.ResponseWriter, r *http.Request) bool {
	if c.Public != nil {
		v, err := c.visit(w, r)
		return err == nil && c.Public.MayOpen(v.Principal)
	}
	return c.Token == "" || c.provesToken(r) || c.sessions.knows(c.sessionID(r), time.Now())
}

// provesToken reports whether a request has the admin token itself, as programs send it.
func (c *Console) provesToken(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && c.isToken(token)
}

func (c *Console) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(c.Token)) == 1
}

// formToken returns the token for the forms on a page.
func (c *Console) formToken(r *http.Request) string {
	switch v := visitorOf(r); {
	case v != nil && v.session != "":
		return formTokenOf([]byte(v.session), v.Identity()) // the same at all replicas
	case v != nil:
		return c.sessions.formToken("\x00" + v.Identity())
	case c.Token == "":
		return c.sessions.formToken("")
	}
	return c.sessions.formToken(c.sessionID(r))
}
