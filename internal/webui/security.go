package webui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/origin"
)

// contentPolicy allows the files of the console itself, and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// protect sets the headers of all answers, and refuses requests that pages of other origins make a
// browser send.
func protect(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send forms of the console with the Origin null
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		if fromElsewhere(r) || sameOrigin.Check(r) != nil {
			http.Error(w, "forbidden: a page of another origin asks for this; open the console itself", http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		}
		next.ServeHTTP(w, r)
	})
}

// maxForm bounds the forms that browsers send, in bytes.
const maxForm = 1 << 20

// fromElsewhere reports whether a browser sends the request for a page of another origin, and not because a
// person follows a link. A frame is none: its destination is not a document. Another port of this machine is
// another origin, although its requests have the cookies of this one.
func fromElsewhere(r *http.Request) bool {
	if o := r.Header.Values("Origin"); len(o) > 0 {
		u, err := url.Parse(o[0])
		if len(o) > 1 || err != nil || !strings.EqualFold(u.Host, r.Host) {
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

// sessions are the browsers that have proved that they know the token.
type sessions struct {
	key []byte // of tokens in forms

	mu  sync.Mutex
	all map[[sha256.Size]byte]time.Time // digest of the id → expiry
}

const (
	// sessionLife is how long a login is valid.
	sessionLife = 12 * time.Hour
	// maxSessions bounds the logins that are kept. If there are more, the oldest ends.
	maxSessions = 256
)

func newSessions() sessions {
	return sessions{key: []byte(rand.Text()), all: make(map[[sha256.Size]byte]time.Time)}
}

// open begins a session and returns its id.
func (s *sessions) open(now time.Time) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest [sha256.Size]byte
	for digest, expiry := range s.all {
		if expiry.Before(now) {
			delete(s.all, digest)
		} else if first := s.all[oldest]; first.IsZero() || expiry.Before(first) {
			oldest = digest
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
	id = rand.Text()
	s.all[sha256.Sum256([]byte(id))] = now.Add(sessionLife)
	return id
}

// knows reports whether a session is open.
func (s *sessions) knows(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.all[sha256.Sum256([]byte(id))])
}

func (s *sessions) close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}

// formToken returns what a form of a session has to carry. Without sessions the id is "": then the
// token only proves that the sender can read pages of this gateway.
func (s *sessions) formToken(id string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// cookieName returns the name of the cookie. Browsers send cookies to all ports of a host, so two gateways on
// one machine need two names.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "mcpgateway_console"
	}
	return "mcpgateway_console_" + port
}

// sessionID returns the id in the cookie of a request, "" without one.
func sessionID(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie sets a cookie of the console. An empty value removes it.
func setCookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	cookie := &http.Cookie{
		Name: name, Value: value, Path: Prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(life.Seconds()),
		// A proxy in front has TLS if it says so. If a client lies, only it gets a cookie that it does not return.
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// authenticate serves only those who may look. A request that changes something has the token of a form.
func (c *Console) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case c.Token != "":
			if c.provesToken(r) || c.sessions.knows(sessionID(r), time.Now()) {
				break
			}
			if r.Method == http.MethodGet && r.Header.Get("Accept") != "text/event-stream" {
				http.Redirect(w, r, Prefix+"/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
				return
			}
			http.Error(w, "unauthorized: log in at "+Prefix+"/login", http.StatusUnauthorized)
			return
		// A web page that rebound its name to loopback is local too, but its Host is not.
		case !origin.IsLocal(r) || !origin.IsLoopbackHost(r.Host):
			http.Error(w, "forbidden: set admin.token to use the console from other machines or through a proxy; "+
				"without a token, open it at 127.0.0.1 or localhost on this machine", http.StatusForbidden)
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
	if c.Token == "" {
		return c.sessions.formToken("")
	}
	return c.sessions.formToken(sessionID(r))
}
