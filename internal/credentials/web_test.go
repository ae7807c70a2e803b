package credentials

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

// site is the pages of a gateway, with an issuer of principals and an upstream.
type site struct {
	*Web
	t      *testing.T
	clock  *clock
	idp    *gatewaytest.AuthServer // the issuer of principals
	as     *gatewaytest.AuthServer // the authorization server of the upstream
	source *Source
	base   string
	change func(r *http.Request) // applied to incoming requests

	mu      sync.Mutex // held by the callbacks; tests read after their requests
	given   []string
	giver   string // the principal of the last grant
	failed  string // the principal of the last error page, "" for none
	failure error  // its reason
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, clock: newClock(), idp: gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"}), as: gatewaytest.NewAuthServer(t, nil)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.change != nil {
			s.change(r)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.base = srv.URL
	s.source = userSource(t, s.as, s.clock, NewStore(""))
	var err error
	s.Web, err = NewWeb(WebOptions{
		Base: func() string { return s.base }, Source: func(name string) *Source { return map[string]*Source{"up": s.source}[name] }, Now: s.clock.now,
		Logins:     []BrowserLogin{{Authority: Authority{Client: Client{ID: "gw", Secret: "pass"}, Issuer: s.idp.URL}}},
		HowToLogIn: func(p *call.Principal) string { return p.Subject + " logs in elsewhere" },
		Granted: func(_ http.ResponseWriter, upstream string, principal *call.Principal, id string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.given, s.giver = append(s.given, upstream+" "+id), principal.Subject
		},
		Failed: func(_ http.ResponseWriter, _ string, principal *call.Principal, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed, s.failure = "", err
			if principal != nil {
				s.failed = principal.Subject
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// of returns a principal of the site's issuer.
func (s *site) of(subject string) *call.Principal {
	return &call.Principal{Subject: subject, Issuer: s.idp.URL, AuthMethod: "jwt"}
}

func (s *site) link(principal *call.Principal) string {
	s.t.Helper()
	at, _, err := s.Link(s.t.Context(), principal, "up")
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// ends opens a URL, and checks the final page.
func (s *site) ends(b *http.Client, url string, status int, want string) {
	s.t.Helper()
	if got, text := open(s.t, b, url); got != status || !strings.Contains(text, want) {
		s.t.Errorf("the browser ends at %d %q, want %d %q", got, text, status, want)
	}
}

func TestGrantInTheBrowser(t *testing.T) {
	s := newSite(t)
	ann, bob := s.of("ann"), s.of("bob")
	s.idp.SetUser("ann")
	s.as.SetUser("ann-at-the-upstream")
	link := s.link(ann)
	if again := s.link(ann); again != link || s.link(bob) == link {
		t.Error("a link is for one principal, and the same until it was used")
	}
	s.ends(browser(t), link, 200, "Access to up is granted")
	if s.source.NeedsGrant(ann) || !s.source.NeedsGrant(bob) || !s.source.NeedsGrant(nil) {
		t.Error("the grant is not that of the one principal alone")
	}
	if sub, _, ok := s.as.TokenSubject(bearer(t, s.source, ann), s.source.o.URL.String()); !ok || sub != "ann-at-the-upstream" {
		t.Errorf("the token is one of %q", sub)
	}
	if _, id, _ := strings.Cut(link, "?id="); len(s.given) != 1 || s.given[0] != "up "+id || s.giver != "ann" {
		t.Errorf("given: %v by %q", s.given, s.giver)
	}
	s.ends(browser(t), link, 404, "has expired")
}

// TestLinkOfAnother opens Ann's link in Bob's browser, whose grant she would use.
func TestLinkOfAnother(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("bob")
	s.ends(browser(t), s.link(s.of("ann")), 403, "for another user than the one who is logged in")
	if s.failed != "ann" {
		t.Errorf("the failure is that of %q", s.failed)
	}
	if !s.source.NeedsGrant(s.of("ann")) || s.as.Requests("/authorize") != 0 {
		t.Error("Bob came to the authorization server on Ann's behalf")
	}
}

func TestUnauthenticatedLink(t *testing.T) {
	s := newSite(t)
	stranger := &call.Principal{Subject: "ci", AuthMethod: "api-key"}
	// On this machine, no login is necessary.
	s.ends(browser(t), s.link(stranger), 200, "Access to up is granted")
	s.ends(browser(t), s.link(call.Anonymous), 200, "Access to up is granted")

	for name, change := range map[string]func(r *http.Request){
		"from elsewhere": func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1234" },
		"by a proxy":     func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
		"by another":     func(r *http.Request) { r.Header.Set("Forwarded", "for=192.0.2.1") },
	} {
		s.change = change
		other := &call.Principal{Subject: name, AuthMethod: "api-key"}
		s.ends(browser(t), s.link(other), 403, "the gateway cannot authenticate you in this browser: "+name+" logs in elsewhere.")
		if !s.source.NeedsGrant(other) {
			t.Errorf("%s: there is a grant", name)
		}
	}
	s.change = func(r *http.Request) { r.Host = "rebound.example.com" }
	s.ends(browser(t), s.link(&call.Principal{Subject: "x", AuthMethod: "api-key"}), 403, "not the address of the gateway")

	// At a public address, requests from this machine may come from a proxy.
	s.change = nil
	link := s.link(&call.Principal{Subject: "y", AuthMethod: "api-key"})
	local := s.base
	s.base = "https://gateway.example.com"
	s.ends(browser(t), strings.Replace(link, s.base, local, 1), 403, "y logs in elsewhere")
}

// A user is not sent to the authorization server for a grant that nothing would keep.
func TestFolderThatTakesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, grantsDir), nil, 0o600); err != nil { // in the place of the folder
		t.Fatal(err)
	}
	s := newSite(t)
	s.as = gatewaytest.NewAuthServer(t, clients)
	s.source = source(t, Options{Kind: User, Store: NewStore(dir), Now: s.clock.now, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: s.as.URL}})
	s.ends(browser(t), s.link(call.Anonymous), 403, "the gateway cannot read or store grants")
	if s.as.Requests("/authorize") != 0 {
		t.Error("the user came to the authorization server")
	}
}

// TestAnswers sends responses of other browsers, and responses twice.
func TestAnswers(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("ann")
	ann := s.of("ann")
	b := browser(t)
	toIdP := step(t, b, s.link(ann))
	backFromIdP := step(t, b, toIdP)
	s.ends(browser(t), backFromIdP, 403, "belongs to another browser")
	toAS := step(t, b, backFromIdP)
	s.ends(b, backFromIdP, 400, "used already")
	back := step(t, b, toAS)

	for name, url := range map[string]string{
		"no state":          s.base + pathCallback + "?code=x",
		"a state of no one": s.base + pathCallback + "?code=x&state=guessed",
		"the wrong page":    strings.Replace(back, pathCallback, pathLogin, 1),
	} {
		t.Run(name, func(t *testing.T) { s.ends(b, url, 400, "is unknown") })
	}
	s.ends(browser(t), back, 403, "belongs to another browser")
	forged := browser(t)
	forged.Jar.SetCookies(at(t, back), []*http.Cookie{{Name: cookieName(at(t, back).Query().Get("state")), Value: "forged", Path: "/oauth/"}})
	s.ends(forged, back, 403, "belongs to another browser")
	if !s.source.NeedsGrant(ann) {
		t.Fatal("another browser's answer was taken")
	}
	s.ends(b, back, 200, "Access to up is granted")
	if s.source.NeedsGrant(ann) {
		t.Error("there is no grant")
	}
	s.ends(b, back, 400, "used already")
	if n := len(s.as.TokenRequests(gatewaytest.GrantCode)); n != 1 {
		t.Errorf("the code was sent %d times", n)
	}
}

// TestMixUp sends the response of one authorization server with the name of another.
func TestMixUp(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("ann")
	for _, iss := range []string{"https://evil.example.com", "-", s.idp.URL} {
		s.as.SetIss(iss)
		status, text := open(t, browser(t), s.link(s.of("ann")))
		if status != 403 || !strings.Contains(text, "authorization server") || !s.source.NeedsGrant(s.of("ann")) {
			t.Errorf("iss %q: %d %s", iss, status, text)
		}
	}
	s.as.SetIss("")
	s.idp.SetIss("https://evil.example.com")
	s.ends(browser(t), s.link(s.of("ann")), 403, "from another authorization server")
	if n := len(s.as.TokenRequests(gatewaytest.GrantCode)) + len(s.idp.TokenRequests(gatewaytest.GrantCode)); n != 3 {
		t.Errorf("codes were sent %d times, want those of the three logins alone", n)
	}
}

// TestLoginWithoutWordOfPKCE uses identity providers whose metadata does not offer PKCE.
// The authorization server of an upstream must offer it.
func TestLoginWithoutWordOfPKCE(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("ann")
	s.idp.SetMetadata("code_challenge_methods_supported", nil)
	b := browser(t)
	if q := at(t, step(t, b, s.link(s.of("ann")))).Query(); q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" {
		t.Errorf("the login begins with %v", q)
	}
	s.ends(b, s.link(s.of("ann")), 200, "Access to up is granted")
	s.as.SetMetadata("code_challenge_methods_supported", nil)
	s.idp.SetUser("bob")
	s.ends(browser(t), s.link(s.of("bob")), 403, "does not offer PKCE")
}

// TestIDTokens uses ID tokens that must not be accepted.
func TestIDTokens(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("ann")
	for name, claims := range map[string]map[string]any{
		"another login's":  {"nonce": "another"},
		"without a nonce":  {"nonce": nil},
		"another client's": {"aud": "other"},
		"another issuer's": {"iss": "https://evil.example.com"},
		"expired":          {"exp": time.Now().Add(-time.Hour).Unix()},
		"without subject":  {"sub": nil},
		"of another":       {"sub": "bob"},
	} {
		s.idp.SetID(claims)
		status, text := open(t, browser(t), s.link(s.of("ann")))
		if status != 403 || !s.source.NeedsGrant(s.of("ann")) || s.as.Requests("/authorize") != 0 {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if cause := errors.Unwrap(s.failure); cause != nil && strings.HasPrefix(cause.Error(), "oidc: ") {
			t.Errorf("%s: the log names a library: %v", name, cause)
		}
	}
}

func TestLinksAndFlowsExpire(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("ann")
	b := browser(t)
	link := s.link(s.of("ann"))
	toIdP := step(t, b, link)
	s.clock.pass(flowTime)
	s.ends(b, step(t, b, toIdP), 400, "is unknown")
	s.ends(b, link, 404, "has expired")
	if s.link(s.of("ann")) == link {
		t.Error("the old link is given out again")
	}
}

// TestDeclined checks that an error response is shown, but not its text.
func TestDeclined(t *testing.T) {
	s := newSite(t)
	b := browser(t)
	for code, want := range map[string]string{"access_denied": "No access was granted: the authorization server refused the grant (access_denied). Access was declined there, by you or by its rules. To be asked once more, open the link again.\n", "<script>": "refused the grant (unknown error).\n"} {
		u := at(t, step(t, b, s.link(call.Anonymous)))
		back := s.base + pathCallback + "?" + url.Values{
			"state": {u.Query().Get("state")}, "iss": {s.as.URL}, "error": {code}, "error_description": {"<b>pay here</b>"},
		}.Encode()
		s.ends(b, back, 403, want)
	}
}

func TestPages(t *testing.T) {
	s := newSite(t)
	resp, err := browser(t).Get(s.base + PathStart + "?id=x")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Content-Type": "text/plain; charset=utf-8",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	resp, err = browser(t).Post(s.base+PathStart, "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST gets %d", resp.StatusCode)
	}
	s.ends(browser(t), s.base+"/oauth/elsewhere", 404, "")
	s.ends(browser(t), s.base+pathDocument, 404, "no https public URL")
	s.base = ""
	if _, _, err := s.Link(t.Context(), call.Anonymous, "up"); err == nil || !strings.Contains(err.Error(), "set public_url") {
		t.Errorf("got %v", err)
	}
}

// TestClientDocument uses the URL of the gateway's client metadata as client_id.
func TestClientDocument(t *testing.T) {
	s := newSite(t)
	s.as.SetMetadata("client_id_metadata_document_supported", true)
	s.as.SetMetadata("registration_endpoint", nil)
	s.idp.SetUser("ann")
	local := s.base
	s.base = "https://gateway.example.com/base"
	status, text := open(t, browser(t), local+"/base"+pathDocument)
	for _, want := range []string{`"client_id":"https://gateway.example.com/base/oauth/client.json"`, `"redirect_uris":["https://gateway.example.com/base/oauth/callback"]`, `"application_type":"web"`} {
		if status != 200 || !strings.Contains(text, want) {
			t.Errorf("%d %s lacks %s", status, text, want)
		}
	}
	f, err := s.user("up").begin(t.Context(), "k", s.base+pathCallback, s.document())
	if err != nil {
		t.Fatal(err)
	}
	q := at(t, f.url()).Query()
	if q.Get("client_id") != s.base+pathDocument || q.Get("resource") != s.source.o.URL.String() || q.Get("code_challenge_method") != "S256" {
		t.Errorf("the browser goes with %v", q)
	}
}

// TestCookies checks that the cookie of an authorization request is not readable by
// scripts, is sent over TLS only, and to the pages of grants only.
func TestCookies(t *testing.T) {
	s := newSite(t)
	s.idp.SetUser("ann")
	local := s.base
	s.base = "https://gateway.example.com/base"
	link := local + "/base" + strings.TrimPrefix(s.link(s.of("ann")), s.base)
	b := browser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := b.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	set := resp.Cookies()
	if len(set) != 1 {
		t.Fatalf("%s with the cookies %v, want one", resp.Status, set)
	}
	if c := set[0]; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/base/oauth/" || c.Domain != "" || c.MaxAge != 600 {
		t.Errorf("the cookie is %v", c)
	}
}

// TestLinkOpenedTooOften opens one link so often that the authorization requests of other
// principals could be dropped.
func TestLinkOpenedTooOften(t *testing.T) {
	s := newSite(t)
	link, b := s.link(s.of("ann")), browser(t)
	for range maxOpens {
		step(t, b, link)
	}
	s.ends(b, link, http.StatusTooManyRequests, "opened too often")
	s.ends(browser(t), s.link(call.Anonymous), 200, "Access to up is granted")
}

func TestPendingIsBounded(t *testing.T) {
	c := newClock()
	p := newPending[int](nil, kindLink, c.now)
	values := p.values.(*pendingMemory)
	put := func(id string) {
		if err := p.put(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	for i := range maxPending {
		put(strconv.Itoa(i))
	}
	if _, ok, _ := p.get(t.Context(), "first"); ok || len(values.all) != maxPending || len(values.order) != maxPending {
		t.Errorf("%d are kept, %d in order, the oldest among them: %v", len(values.all), len(values.order), ok)
	}
	c.pass(flowTime + time.Second)
	put("last")
	if len(values.all) != 1 || len(values.order) != 1 {
		t.Errorf("%d are kept after they have expired", len(values.all))
	}
}

// Requests that belong to no known link are reported too, without what they sent.
func TestUnknownLinksAreReported(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		method, path string
		want         error
	}{
		{"GET", "/oauth/start?id=unknown-id", errLink},
		{"GET", "/oauth/start?id=" + strings.Repeat("x", idSize), errLink},
		{"GET", "/oauth/callback?code=a-code&state=a-state", errResponse},
		{"GET", "/oauth/login?code=a-code&state=a-state", errResponse},
		{"GET", "/oauth/else", errNoPage},
		{"POST", "/oauth/start", errMethod},
	} {
		s.failed, s.failure = "nobody", nil
		r := httptest.NewRequest(tt.method, s.base+tt.path, nil)
		s.ServeHTTP(httptest.NewRecorder(), r)
		if s.failed != "" || !errors.Is(s.failure, tt.want) {
			t.Errorf("%s %s is reported as %v of %q, want %v of nobody", tt.method, tt.path, s.failure, s.failed, tt.want)
		}
	}
}
