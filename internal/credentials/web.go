package credentials

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/origin"
)

// WebOptions configure a [Web].
type WebOptions struct {
	// Base returns the URL at which browsers reach the gateway, without a slash at its
	// end, "" if it is unknown. The redirect URIs are <base>/oauth/callback and
	// <base>/oauth/login.
	Base   func() string
	Source func(upstream string) *Source // returns nil for an unknown upstream
	Logins []BrowserLogin                // logins of users in the browser
	// Granted is called when a principal has given a grant through the link with this id.
	// It must not block, and may be nil.
	Granted func(upstream string, principal *call.Principal, id string)
	// Failed is called with the reason of an error page for the link of a principal. It
	// may be nil.
	Failed func(upstream string, principal *call.Principal, err error)
	Now    func() time.Time // nil means time.Now
}

// Web serves the pages on which principals give grants:
//
//	/oauth/start?id=…  ──▶ [ /oauth/login at the principal's issuer ]
//	                   ──▶ the upstream's authorization server  ──▶ /oauth/callback
//
// A link is for one principal and one upstream. The user who opens it must be that
// principal: they log in at the issuer of the principal, and the subject must be the
// same; if no login is configured, the browser must be on this machine. So nobody can
// make another user give a grant. The authorization response must come from the browser
// that was sent away, with a state that is accepted once.
//
// Links and flows are kept in memory.
type Web struct {
	o            WebOptions
	logins       map[string]*browserLogin // by issuer
	links        *pending[link]
	authRequests *pending[authRequest]
	index        *pending[string] // ids of links by upstream and principal
}

// link invites a principal to give a grant.
type link struct {
	principal *call.Principal
	upstream  string
	opened    *atomic.Int32 // how often it was opened
}

// maxOpens bounds how often a link can be opened. Each time costs requests to other
// servers and an entry of the pending authorization requests, of which the oldest are
// dropped.
const maxOpens = 100

// authRequest is an authorization request that a browser was sent away with.
type authRequest struct {
	link
	id      string // of the link
	flow    *flow
	nonce   string            // of a login
	browser [sha256.Size]byte // the digest of the cookie
	login   *browserLogin     // nil if the request is for the grant
}

// Paths of the pages below the base.
const (
	PathStart    = "/oauth/start"
	pathLogin    = "/oauth/login"
	pathCallback = "/oauth/callback"
	pathDocument = "/oauth/client.json"
)

// NewWeb returns a Web. The error names the invalid option.
func NewWeb(o WebOptions) (*Web, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Granted == nil {
		o.Granted = func(string, *call.Principal, string) {}
	}
	if o.Failed == nil {
		o.Failed = func(string, *call.Principal, error) {}
	}
	w := &Web{
		o: o, logins: make(map[string]*browserLogin), links: newPending[link](o.Now), authRequests: newPending[authRequest](o.Now), index: newPending[string](o.Now),
	}
	for _, l := range o.Logins {
		login, err := newBrowserLogin(l, o.Now)
		if err != nil {
			return nil, err
		}
		w.logins[l.Issuer] = login
	}
	return w, nil
}

// Link returns the URL and the id of a link on which a principal gives a grant for an
// upstream.
func (w *Web) Link(principal *call.Principal, upstream string) (at, id string, err error) {
	base := w.o.Base()
	if base == "" {
		return "", "", failf("the gateway does not know how browsers reach it: set public_url")
	}
	// "All redirect URIs MUST be either localhost or use HTTPS" (2026-07-28,
	// basic/authorization/security-considerations, "Communication Security").
	if u, err := url.Parse(base); err != nil || u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return "", "", failf("browsers reach the gateway over http, which is not secure enough for grants: set public_url to an https URL")
	}
	key := upstream + "\x00" + principal.Key()
	id, ok := w.index.get(key)
	if ok {
		_, ok = w.links.get(id)
	}
	if !ok {
		id = w.links.add(link{principal, upstream, new(atomic.Int32)})
		w.index.put(key, id)
	}
	return base + PathStart + "?id=" + id, id, nil
}

// document returns the URL of the gateway's client metadata, "" if authorization servers
// cannot fetch it.
func (w *Web) document() string {
	if base := w.o.Base(); strings.HasPrefix(base, "https://") {
		return base + pathDocument
	}
	return ""
}

// ServeHTTP serves the paths below /oauth/.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the id of a link is in its URL
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.Method != http.MethodGet {
		h.Set("Allow", http.MethodGet)
		page(rw, http.StatusMethodNotAllowed, "This page is for browsers.")
		return
	}
	base, err := url.Parse(w.o.Base())
	// A web page whose name resolves to loopback (DNS rebinding) must not read this page.
	if err != nil || base.Host == "" || isLoopback(base.Hostname()) && !strings.EqualFold(base.Host, r.Host) {
		page(rw, http.StatusForbidden, "This is not the address of the gateway. Open the link exactly as you received it.")
		return
	}
	switch strings.TrimPrefix(r.URL.Path, base.Path) {
	case PathStart:
		w.start(rw, r)
	case pathLogin, pathCallback:
		w.callback(rw, r)
	case pathDocument:
		w.serveDocument(rw)
	default:
		http.NotFound(rw, r)
	}
}

func (w *Web) serveDocument(rw http.ResponseWriter) {
	id := w.document()
	if id == "" {
		page(rw, http.StatusNotFound, "The gateway has no https public URL.")
		return
	}
	doc, err := json.Marshal(clientDocument(id, w.o.Base()+pathCallback))
	if err != nil {
		page(rw, http.StatusInternalServerError, "The document cannot be created.")
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(doc)
}

// start begins the login of the user who opened a link, or the authorization request.
func (w *Web) start(rw http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	l, ok := w.links.get(id)
	if !ok {
		page(rw, http.StatusNotFound, "This link has expired. Repeat the call in your application to get a new one.")
		return
	}
	if l.opened.Add(1) > maxOpens {
		page(rw, http.StatusTooManyRequests, "This link was opened too often. Wait ten minutes, then repeat the call in your application.")
		return
	}
	browser := rand.Text()
	if login := w.logins[l.principal.Issuer]; login != nil && l.principal.Issuer != "" {
		f, nonce, err := login.begin(r.Context(), w.o.Base()+pathLogin)
		if err != nil {
			w.fail(rw, l, err)
			return
		}
		w.redirect(rw, r, authRequest{link: l, id: id, flow: f, nonce: nonce, login: login}, browser, "nonce", nonce)
		return
	}
	base, err := url.Parse(w.o.Base())
	if err != nil || !isLoopback(base.Hostname()) || !origin.IsLocal(r) {
		w.fail(rw, l, failf("the gateway cannot authenticate you in this browser: its configuration needs auth.login for the issuer of your account"))
		return
	}
	w.grant(rw, r, l, id, browser)
}

// grant sends the browser to the authorization server of the upstream.
func (w *Web) grant(rw http.ResponseWriter, r *http.Request, l link, id, browser string) {
	u := w.user(l.upstream)
	if u == nil {
		w.fail(rw, l, failf("this server no longer needs a grant"))
		return
	}
	f, err := u.begin(r.Context(), principalKey(l.principal), w.o.Base()+pathCallback, w.document())
	if err != nil {
		w.fail(rw, l, err)
		return
	}
	w.redirect(rw, r, authRequest{link: l, id: id, flow: f}, browser)
}

func (w *Web) user(upstream string) *user {
	s := w.o.Source(upstream)
	if s == nil {
		return nil
	}
	u, _ := s.tokens.(*user)
	return u
}

// redirect sends a browser away with an authorization request.
func (w *Web) redirect(rw http.ResponseWriter, r *http.Request, t authRequest, browser string, more ...string) {
	t.browser = sha256.Sum256([]byte(browser))
	w.authRequests.put(t.flow.state, t)
	base, _ := url.Parse(w.o.Base())
	http.SetCookie(rw, &http.Cookie{
		Name: cookieName(t.flow.state), Value: browser, Path: base.Path + "/oauth/", MaxAge: int(flowTime.Seconds()),
		HttpOnly: true, Secure: base.Scheme == "https", SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(rw, r, t.flow.url(more...), http.StatusFound)
}

// cookieName returns the name of the cookie of an authorization request. A browser may
// have several.
func cookieName(state string) string {
	sum := sha256.Sum256([]byte(state))
	return "mcpgateway_" + hex.EncodeToString(sum[:8])
}

// callback handles an authorization response.
func (w *Web) callback(rw http.ResponseWriter, r *http.Request) {
	answer, err := url.ParseQuery(r.URL.RawQuery)
	state := answer.Get("state")
	t, ok := w.authRequests.get(state)
	login := strings.HasSuffix(r.URL.Path, pathLogin)
	if err != nil || !ok || (t.login != nil) != login {
		page(rw, http.StatusBadRequest, "This response is unknown, or was used already. Open the link again.")
		return
	}
	cookie, err := r.Cookie(cookieName(state))
	if err != nil || !sameBrowser(cookie.Value, t) {
		// Another browser must not use up the state.
		w.fail(rw, t.link, failf("this response belongs to another browser: open the link again, and stay in one browser"))
		return
	}
	if _, ok := w.authRequests.take(state); !ok {
		page(rw, http.StatusBadRequest, "This response was used already. Open the link again.")
		return
	}
	ctx := context.WithoutCancel(r.Context()) // a code can be used once, so a closed browser must not waste it
	if t.login != nil {
		principal, err := t.login.finish(ctx, t.flow, t.nonce, answer)
		if err == nil && principal != t.principal.Subject {
			err = failf("this link is for another user than the one who is logged in")
		}
		if err != nil {
			w.fail(rw, t.link, err)
			return
		}
		w.grant(rw, r, t.link, t.id, rand.Text())
		return
	}
	u := w.user(t.upstream)
	if u == nil {
		w.fail(rw, t.link, failf("this server no longer needs a grant"))
		return
	}
	if err := u.finish(ctx, principalKey(t.principal), t.flow, answer); err != nil {
		w.fail(rw, t.link, err)
		return
	}
	w.links.take(t.id)
	w.o.Granted(t.upstream, t.principal, t.id)
	page(rw, http.StatusOK, fmt.Sprintf("Access to %s is granted. You can close this page and go back to your application.", t.upstream))
}

func sameBrowser(cookie string, t authRequest) bool {
	sum := sha256.Sum256([]byte(cookie))
	return subtle.ConstantTimeCompare(sum[:], t.browser[:]) == 1
}

// fail shows an error page.
func (w *Web) fail(rw http.ResponseWriter, l link, err error) {
	w.o.Failed(l.upstream, l.principal, err)
	text := "it took too long"
	var known *Error
	if errors.As(err, &known) {
		text = known.text
	}
	page(rw, http.StatusForbidden, "No access was granted: "+text+".")
}

// page writes one sentence as plain text, in which a browser finds no markup.
func page(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	_, _ = rw.Write([]byte(text + "\n"))
}
