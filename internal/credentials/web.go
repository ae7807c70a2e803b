package credentials

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/origin"
	"mcpgateway/internal/store"
	"mcpgateway/internal/ttlcache"
)

// WebOptions configure a [Web].
type WebOptions struct {
	// Base returns the URL at which browsers reach the gateway, without a slash at its
	// end, "" if it is unknown. The redirect URIs are <base>/oauth/callback and
	// <base>/oauth/login.
	Base   func() string
	Source func(upstream string) *Source // returns nil for an unknown upstream
	Logins []BrowserLogin                // logins of users in the browser
	// Granted is called when a principal has given a grant through the link with this id, before the
	// page that says so is written to rw. It must not block, and may be nil.
	Granted func(rw http.ResponseWriter, upstream string, principal *call.Principal, id string)
	// Failed is called with the reason of each error page, before the page is written to rw.
	// Without a link that is known, upstream is "" and principal nil. It may be nil.
	Failed func(rw http.ResponseWriter, upstream string, principal *call.Principal, err error)
	// LoggedIn returns the principal who has logged in to the gateway itself with the browser that sent a
	// request, nil for none. It is called before the answer is written to rw. It may be nil.
	LoggedIn func(rw http.ResponseWriter, r *http.Request) *call.Principal
	// HowToLogIn says what lets the gateway know a principal in a browser. The page shows it to its user after a colon. It
	// must be set.
	HowToLogIn func(*call.Principal) string
	// Authenticated answers the request with which a browser ends a login that [Web.BeginLogin] began: with an access
	// token of its user for the gateway, or with the reason why there is none, which is for that user. It may be nil.
	Authenticated func(rw http.ResponseWriter, r *http.Request, next, token string, err error)
	Now           func() time.Time // nil means time.Now
	// Shared is the store that replicas share, nil for none. It must seal its values.
	Shared store.Values
}

// Web serves the pages on which principals give grants:
//
//	/oauth/start?id=…  ──▶ [ /oauth/login at the principal's issuer ]
//	                   ──▶ the upstream's authorization server  ──▶ /oauth/callback
//
// A link is for one principal and one upstream. The user who opens it must be that
// principal: they have logged in to the gateway as this principal, or they log in at the
// issuer of the principal, and the subject must be the same; if no login is configured, the
// browser must be on this machine. So nobody can
// make another user give a grant. The authorization response must come from the browser
// that was sent away, with a state that is accepted once.
//
// Links and flows are kept in memory, or in the store that replicas share: then any replica serves any step. While that
// store is away, no grant can be given.
type Web struct {
	o            WebOptions
	logins       map[string]*browserLogin // by issuer
	links        *pending[link]
	authRequests *pending[authRequest]
	index        *pending[string] // ids of links by upstream and principal

	mu    sync.Mutex
	opens *ttlcache.Cache[string, int] // how often links were opened here, by id
}

// link invites a principal to give a grant.
type link struct {
	// Profile, Subject, Issuer and Method identify the principal.
	Profile  string   `json:"profile,omitempty"`
	Subject  string   `json:"subject"`
	Issuer   string   `json:"issuer,omitempty"`
	Method   string   `json:"method"`
	Upstream string   `json:"upstream"`
	Scopes   []string `json:"scopes,omitempty"` // that the server requires beyond the grant
}

// principal returns the principal of the link, without credentials and claims.
func (l link) principal() *call.Principal {
	return &call.Principal{Profile: l.Profile, Subject: l.Subject, Issuer: l.Issuer, AuthMethod: l.Method}
}

// maxOpens bounds how often a link can be opened at one replica. Each time costs requests to other
// servers and an entry of the pending authorization requests, of which the oldest are
// dropped.
const maxOpens = 100

// authRequest is an authorization request that a browser was sent away with.
type authRequest struct {
	Link    link      `json:"link"`
	ID      string    `json:"id"` // of the link
	Flow    savedFlow `json:"flow"`
	Browser []byte    `json:"browser"`         // the digest of the cookie
	Login   bool      `json:"login,omitempty"` // at the issuer of the principal; false if the request is for the grant
	Nonce   string    `json:"nonce,omitempty"` // of a login
	// Own says that the login is one at the gateway itself, after which the browser goes to Next. The link has only an issuer.
	Own  bool   `json:"own,omitempty"`
	Next string `json:"next,omitempty"`
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
		o.Granted = func(http.ResponseWriter, string, *call.Principal, string) {}
	}
	if o.Failed == nil {
		o.Failed = func(http.ResponseWriter, string, *call.Principal, error) {}
	}
	w := &Web{
		o: o, logins: make(map[string]*browserLogin),
		links:        newPending[link](o.Shared, kindLink, o.Now),
		authRequests: newPending[authRequest](o.Shared, kindLogin, o.Now),
		index:        newPending[string](o.Shared, kindLinkOf, o.Now),
		opens:        ttlcache.New[string, int](maxPending),
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
func (w *Web) Link(ctx context.Context, principal *call.Principal, upstream string) (at, id string, err error) {
	base, err := w.base()
	if err != nil {
		return "", "", err
	}
	if id, err = w.linkID(ctx, principal, upstream); err != nil {
		return "", "", err
	}
	return base + PathStart + "?id=" + id, id, nil
}

// base returns the URL below which browsers come back from authorization servers.
func (w *Web) base() (string, error) {
	base := w.o.Base()
	if base == "" {
		return "", failf("the gateway does not know how browsers reach it: set public_url")
	}
	// "All redirect URIs MUST be either localhost or use HTTPS" (2026-07-28,
	// basic/authorization/security-considerations, "Communication Security").
	if u, err := url.Parse(base); err != nil || u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return "", failf("browsers reach the gateway over http, which is not secure enough for grants: set public_url to an https URL")
	}
	return base, nil
}

// linkID returns the id of the link of a principal for an upstream. It makes a link if there is none, and adds
// the scopes to it that the server has required here.
func (w *Web) linkID(ctx context.Context, principal *call.Principal, upstream string) (string, error) {
	l := link{Profile: principal.Profile, Subject: principal.Subject, Issuer: principal.Issuer, Method: principal.AuthMethod, Upstream: upstream}
	if u := w.user(upstream); u != nil {
		l.Scopes = u.demanded(principalKey(principal))
	}
	key := upstream + "\x00" + principal.Key()
	id, ok, err := w.index.get(ctx, key)
	if err != nil {
		return "", err
	}
	if ok {
		known, ok, err := w.links.get(ctx, id)
		scopes := union(known.Scopes, l.Scopes)
		switch {
		case err != nil:
			return "", err
		case ok && len(scopes) == len(known.Scopes):
			return id, nil
		case ok:
			l.Scopes = scopes
			return id, w.links.put(ctx, id, l)
		}
	}
	id = rand.Text()
	if err := w.links.put(ctx, id, l); err != nil {
		return "", err
	}
	return id, w.index.put(ctx, key, id)
}

// opened counts that a link was opened, and reports whether that is within bounds.
func (w *Web) opened(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Now()
	n, _ := w.opens.Get(id, now)
	w.opens.Put(id, n+1, now.Add(flowTime), now)
	return n < maxOpens
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
		w.reject(rw, http.StatusMethodNotAllowed, errMethod, "This page is for browsers.")
		return
	}
	base, err := url.Parse(w.o.Base())
	// A web page whose name resolves to loopback (DNS rebinding) must not read this page.
	if err != nil || base.Host == "" || isLoopback(base.Hostname()) && !strings.EqualFold(base.Host, r.Host) {
		w.reject(rw, http.StatusForbidden, errWrongHost, "This is not the address of the gateway. Open the link exactly as you received it.")
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
		w.o.Failed(rw, "", nil, errNoPage)
		http.NotFound(rw, r)
	}
}

func (w *Web) serveDocument(rw http.ResponseWriter) {
	id := w.document()
	if id == "" {
		w.reject(rw, http.StatusNotFound, errDocument, "The gateway has no https public URL.")
		return
	}
	doc, err := json.Marshal(clientDocument(id, w.o.Base()+pathCallback))
	if err != nil {
		w.reject(rw, http.StatusInternalServerError, err, "The document cannot be created.")
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(doc)
}

// start begins the login of the user who opened a link, or the authorization request.
func (w *Web) start(rw http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	l, ok, err := findPending(r, w.links, id)
	switch {
	case err != nil:
		w.o.Failed(rw, "", nil, err)
		notGranted(rw, err)
		return
	case !ok:
		w.reject(rw, http.StatusNotFound, errLink, "This link has expired. Repeat the call in your application to get a new one.")
		return
	case !w.opened(id):
		w.o.Failed(rw, l.Upstream, l.principal(), errOpened)
		page(rw, http.StatusTooManyRequests, "This link was opened too often. Wait ten minutes, then repeat the call in your application.")
		return
	}
	browser := rand.Text()
	if w.o.LoggedIn != nil {
		if p := w.o.LoggedIn(rw, r); p != nil && p.Identity() == l.principal().Identity() {
			w.grant(rw, r, l, id, browser)
			return
		}
	}
	if login := w.logins[l.Issuer]; login != nil && l.Issuer != "" {
		f, nonce, err := login.begin(r.Context(), w.o.Base()+pathLogin, "")
		if err != nil {
			w.fail(rw, l, err)
			return
		}
		w.redirect(rw, r, f, authRequest{Link: l, ID: id, Login: true, Nonce: nonce}, browser, "nonce", nonce)
		return
	}
	base, err := url.Parse(w.o.Base())
	if err != nil || !isLoopback(base.Hostname()) || !origin.IsLocal(r) {
		w.fail(rw, l, failf("the gateway cannot authenticate you in this browser: %s", w.o.HowToLogIn(l.principal())))
		return
	}
	w.grant(rw, r, l, id, browser)
}

// grant sends the browser to the authorization server of the upstream.
func (w *Web) grant(rw http.ResponseWriter, r *http.Request, l link, id, browser string) {
	u := w.user(l.Upstream)
	if u == nil {
		w.fail(rw, l, errNoGrantNeeded)
		return
	}
	f, err := u.begin(r.Context(), principalKey(l.principal()), w.o.Base()+pathCallback, w.document(), l.Scopes...)
	if err != nil {
		w.fail(rw, l, err)
		return
	}
	w.redirect(rw, r, f, authRequest{Link: l, ID: id}, browser)
}

var errNoGrantNeeded = failf("this server no longer needs a grant")

func (w *Web) user(upstream string) *user {
	s := w.o.Source(upstream)
	if s == nil {
		return nil
	}
	u, _ := s.tokens.(*user)
	return u
}

// redirect sends a browser away with an authorization request.
func (w *Web) redirect(rw http.ResponseWriter, r *http.Request, f *flow, t authRequest, browser string, more ...string) {
	if err := w.sendAway(rw, r, f, t, browser, more...); err != nil {
		w.fail(rw, t.Link, err)
	}
}

// sendAway is redirect for callers that answer a request that fails themselves.
func (w *Web) sendAway(rw http.ResponseWriter, r *http.Request, f *flow, t authRequest, browser string, more ...string) error {
	t.Flow, t.Browser = f.saved(), digest([]byte(browser))
	if err := w.authRequests.put(r.Context(), f.state, t); err != nil {
		return err
	}
	base, _ := url.Parse(w.o.Base())
	http.SetCookie(rw, &http.Cookie{
		Name: cookieName(f.state), Value: browser, Path: base.Path + "/oauth/", MaxAge: int(flowTime.Seconds()),
		HttpOnly: true, Secure: base.Scheme == "https", SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(rw, r, f.url(more...), http.StatusFound)
	return nil
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
	if err != nil {
		answer = nil
	}
	state := answer.Get("state")
	t, ok, err := findPending(r, w.authRequests, state)
	if err != nil {
		w.o.Failed(rw, "", nil, err)
		notGranted(rw, err)
		return
	}
	if !ok || t.Login != strings.HasSuffix(r.URL.Path, pathLogin) {
		w.reject(rw, http.StatusBadRequest, errResponse, "This response is unknown, or was used already. Open the link again.")
		return
	}
	cookie, err := r.Cookie(cookieName(state))
	if err != nil || subtle.ConstantTimeCompare(digest([]byte(cookie.Value)), t.Browser) != 1 {
		// Another browser must not use up the state.
		w.refuse(rw, r, t, failf("this response belongs to another browser: open the link again, and stay in one browser"))
		return
	}
	ctx := context.WithoutCancel(r.Context()) // a code can be used once, so a closed browser must not waste it
	switch _, ok, err := w.authRequests.take(ctx, state); {
	case err != nil:
		w.refuse(rw, r, t, err)
		return
	case !ok:
		w.reject(rw, http.StatusBadRequest, errResponse, "This response was used already. Open the link again.")
		return
	}
	if t.Own {
		_, token, err := w.redeemLogin(ctx, t, answer)
		w.o.Authenticated(rw, r, t.Next, token, err)
		return
	}
	if t.Login {
		if err := w.finishLogin(ctx, t, answer); err != nil {
			w.fail(rw, t.Link, err)
			return
		}
		w.grant(rw, r, t.Link, t.ID, rand.Text())
		return
	}
	if err := w.finishGrant(ctx, t, answer); err != nil {
		w.fail(rw, t.Link, err)
		return
	}
	_, _, _ = w.links.take(ctx, t.ID) // otherwise it expires
	w.o.Granted(rw, t.Link.Upstream, t.Link.principal(), t.ID)
	page(rw, http.StatusOK, fmt.Sprintf("Access to %s is granted. You can close this page and go back to your application.", t.Link.Upstream))
}

// findPending returns the entry that a browser asks for. A text that cannot be an id is not looked up.
func findPending[T any](r *http.Request, p *pending[T], id string) (what T, ok bool, err error) {
	if len(id) != idSize {
		return what, false, nil
	}
	return p.get(r.Context(), id)
}

// idSize is the length of ids and states, which rand.Text makes.
const idSize = 26

// finishLogin handles the authorization response of a login. The user must be the principal of the link.
func (w *Web) finishLogin(ctx context.Context, t authRequest, answer url.Values) error {
	subject, _, err := w.redeemLogin(ctx, t, answer)
	if err == nil && subject != t.Link.Subject {
		err = failf("this link is for another user than the one who is logged in")
	}
	return err
}

// redeemLogin returns who has logged in, and the access token.
func (w *Web) redeemLogin(ctx context.Context, t authRequest, answer url.Values) (subject, access string, err error) {
	login := w.logins[t.Link.Issuer]
	if login == nil {
		return "", "", failf("users of this issuer can no longer log in")
	}
	f, err := login.resume(ctx, t.Flow)
	if err != nil {
		return "", "", err
	}
	return login.finish(ctx, f, t.Nonce, answer)
}

// finishGrant handles the authorization response for a grant, and stores the grant.
func (w *Web) finishGrant(ctx context.Context, t authRequest, answer url.Values) error {
	u := w.user(t.Link.Upstream)
	if u == nil {
		return errNoGrantNeeded
	}
	f, err := u.resume(t.Flow)
	if err != nil {
		return err
	}
	return u.finish(ctx, principalKey(t.Link.principal()), f, answer)
}
