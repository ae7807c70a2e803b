package credentials

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

// login gives the grant of this machine's user, in a browser.
func login(t *testing.T, s *Source) error {
	t.Helper()
	pages := make(chan string, 1)
	err := Login(t.Context(), s, 0, func(url string) {
		go func() {
			resp, err := browser(t).Get(url)
			if err != nil {
				pages <- err.Error()
				return
			}
			resp.Body.Close()
			pages <- resp.Status
		}()
	})
	t.Logf("the browser ends with %s", <-pages)
	return err
}

func userSource(t *testing.T, as *gatewaytest.AuthServer, c *clock, store *Store) *Source {
	t.Helper()
	return source(t, Options{Kind: User, URL: at(t, protected(t, as)), Store: store, Now: c.now})
}

// loggedIn returns a source whose user has given a grant.
func loggedIn(t *testing.T, as *gatewaytest.AuthServer, c *clock, store *Store) *Source {
	t.Helper()
	s := userSource(t, as, c, store)
	if err := login(t, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLogin(t *testing.T) {
	as, c, store := gatewaytest.NewAuthServer(t, nil), newClock(), NewStore(t.TempDir())
	s := userSource(t, as, c, store)
	if h, err := s.Headers(t.Context(), nil); err != nil || len(h) != 0 || !s.NeedsGrant(nil) {
		t.Fatalf("without a grant the gateway sends %v, %v", h, err)
	}
	fails(t, s, call.Anonymous, "run gateway login up")
	again, err := s.Refused(t.Context(), nil, http.Header{}, 401, http.Header{})
	missing, _ := errors.AsType[*Error](err)
	if again || missing == nil || !strings.Contains(err.Error(), "run gateway login up") || missing.HasPassed() {
		t.Errorf("after a 401: %v, %v", again, err)
	}
	// Another process may store the grant: the error passes, and the failure that was cached is forgotten.
	if err := login(t, source(t, Options{Kind: User, URL: s.o.URL, Store: NewStore(dirOf(store)), Now: c.now})); err != nil {
		t.Fatal(err)
	}
	if !missing.HasPassed() {
		t.Error("the error has not passed although there is a grant")
	}
	resource := s.o.URL.String()
	for _, principal := range []*call.Principal{nil, call.Anonymous, call.Local} {
		sub, scopes, ok := as.TokenSubject(bearer(t, s, principal), resource)
		if !ok || sub != "ann" || strings.Join(scopes, " ") != "read offline_access" {
			t.Errorf("the token of %v is one of %q with %q, good: %v", principal, sub, scopes, ok)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dirOf(store), grantsDir)); err != nil || len(left) != 3 {
		t.Errorf("left behind: %v, %v; want the grant, its lock and its last use", left, err)
	}
	if s.NeedsGrant(call.Anonymous) || !s.NeedsGrant(withToken("ann", "x")) {
		t.Error("the grant of this machine's user is one of others, or not theirs")
	}
	fails(t, s, withToken("ann", "x"), "requires a grant of its user")

	// Another process finds the grant, but not for a server at another URL.
	bearer(t, source(t, Options{Kind: User, URL: s.o.URL, Store: NewStore(dirOf(store)), Now: c.now}), nil)
	moved := source(t, Options{Kind: User, URL: at(t, "https://elsewhere.example.com/mcp"), Store: NewStore(dirOf(store)), Now: c.now})
	if !moved.NeedsGrant(nil) {
		t.Error("the grant goes with the name of the upstream, to whatever server it is")
	}

	// The token is refreshed on use, once for all callers, and stored.
	first := bearer(t, s, nil)
	c.pass(6 * time.Minute)
	second := bearer(t, s, nil)
	if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); second == first || n != 1 {
		t.Errorf("the same token: %v; %d refreshes", second == first, n)
	}
	if form := as.TokenRequests(gatewaytest.GrantRefresh)[0]; form.Get("resource") != resource || !strings.HasPrefix(form.Get("client_id"), "registered-") {
		t.Errorf("refreshed with %v", form)
	}
	// The other process has an old refresh token in memory, and finds the new grant.
	if bearer(t, source(t, Options{Kind: User, URL: s.o.URL, Store: NewStore(dirOf(store)), Now: c.now}), nil) != second {
		t.Error("another process does not see the new token")
	}

	// A token that the server refuses is refreshed. A grant that was revoked is removed.
	c.pass(minTokenAge)
	sent := http.Header{"Authorization": {"Bearer " + second}}
	if again, err := s.Refused(t.Context(), nil, sent, 401, http.Header{}); !again || err != nil || bearer(t, s, nil) == second {
		t.Errorf("a refused token: %v, %v", again, err)
	}
	as.RevokeRefreshTokens()
	c.pass(6 * time.Minute)
	const refused = "the authorization server refused your grant (invalid_grant): run gateway login up"
	fails(t, s, call.Anonymous, refused)
	c.pass(failureLife)
	fails(t, s, call.Anonymous, refused)
	fails(t, source(t, Options{Kind: User, URL: s.o.URL, Store: NewStore(dirOf(store)), Now: c.now}), call.Anonymous, refused)
	if _, err := s.Refused(t.Context(), nil, http.Header{}, 401, http.Header{}); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("a request without a token: %v", err)
	}

	// Another grant ends it, also for the time after that one.
	if err := login(t, s); err != nil {
		t.Fatal(err)
	}
	u := s.tokens.(*user)
	u.o.Authority.Issuer = "https://elsewhere.example.com"
	if _, err := u.load(t.Context(), localKey); err == nil || !strings.Contains(err.Error(), "the gateway has none of its own yet") {
		t.Errorf("a grant of another authorization server: %v", err)
	}
	u.o.Authority.Issuer = ""
	if all, err := store.Grants(t.Context()); err != nil || len(all) != 1 || store.Forget(t.Context(), all[0]) != nil {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := u.load(t.Context(), localKey); err == nil || !strings.Contains(err.Error(), "the gateway has none of its own yet") {
		t.Errorf("after logout: %v", err)
	}
}

// TestRefreshByTwoProcesses lets another process use the refresh token first.
func TestRefreshByTwoProcesses(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := loggedIn(t, as, c, NewStore(t.TempDir()))
	u := s.tokens.(*user)
	as.SetMetadata("token_endpoint", serve(t, func(w http.ResponseWriter, r *http.Request) {
		g, err := u.load(t.Context(), localKey)
		if err != nil {
			t.Error(err)
		}
		g.Access, g.Refresh, g.Issued, g.Expires = "the-other's", "next", c.now(), c.now().Add(time.Minute)
		if err := u.save(t.Context(), localKey, g); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
	}))
	c.pass(6 * time.Minute)
	if got := bearer(t, s, nil); got != "the-other's" {
		t.Errorf("got %q", got)
	}
}

func TestRefreshThatFailsForNow(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := loggedIn(t, as, c, NewStore(""))
	as.SetFail("temporarily_unavailable")
	c.pass(6 * time.Minute)
	fails(t, s, nil, "the token endpoint answered HTTP 400 (temporarily_unavailable)")
	if s.NeedsGrant(nil) {
		t.Error("the grant was given up")
	}
	as.SetFail("")
	c.pass(failureLife)
	bearer(t, s, nil)
}

func TestWiderGrant(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := loggedIn(t, as, c, NewStore(""))
	sent, err := s.Headers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="read write"`}}
	if again, err := s.Refused(t.Context(), nil, sent, 403, answer); again || err == nil || !strings.Contains(err.Error(), "grant with more scopes") || s.StepUps(nil) != 1 || s.NeedsGrant(nil) {
		t.Fatalf("403: %v, %v", again, err)
	}
	if err := login(t, s); err != nil {
		t.Fatal(err)
	}
	token := bearer(t, s, nil)
	if _, scopes, _ := as.TokenSubject(token, s.o.URL.String()); strings.Join(scopes, " ") != "read offline_access write" {
		t.Errorf("the scopes are %q", scopes)
	}
	// If the grant has the scopes that the server requires, the user is not asked again.
	sent.Set("Authorization", "Bearer "+token)
	if again, err := s.Refused(t.Context(), nil, sent, 403, answer); again || err != nil || s.NeedsGrant(nil) {
		t.Errorf("403 once more: %v, %v", again, err)
	}
}

// TestNarrowerGrant uses an authorization server that grants fewer scopes than requested.
// The user is not asked for the same scopes again immediately.
func TestNarrowerGrant(t *testing.T) {
	c := newClock()
	s := userSource(t, gatewaytest.NewAuthServer(t, nil), c, NewStore(""))
	u := s.tokens.(*user)
	g := grant{Access: "x", Issued: c.now(), Expires: c.now().Add(time.Hour), Scopes: []string{"read"}, Asked: []string{"read", "write"}}
	if err := u.save(t.Context(), localKey, g); err != nil {
		t.Fatal(err)
	}
	refused := func(scope string) error {
		answer := http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="` + scope + `"`}}
		_, err := s.Refused(t.Context(), nil, http.Header{}, 403, answer)
		return err
	}
	if err := refused("write"); err != nil || s.StepUps(nil) != 0 {
		t.Errorf("asked again at once: %v", err)
	}
	if err := refused("admin"); err == nil || s.StepUps(nil) != 1 {
		t.Error("the user is not asked for a scope that was not requested before")
	}
	c.pass(flowTime)
	if err := refused("write"); err == nil || s.StepUps(nil) != 2 {
		t.Error("later the user is not asked again")
	}
}

// TestLoginThatFails uses servers that must not be trusted, and invalid responses.
func TestLoginThatFails(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(as *gatewaytest.AuthServer)
		want   string
	}{
		{"mix-up", func(as *gatewaytest.AuthServer) { as.SetIss("https://evil.example.com") }, "is from another authorization server"},
		{"nearly the same issuer", func(as *gatewaytest.AuthServer) { as.SetIss(as.URL + "/") }, "is from another authorization server"},
		{"no issuer, though announced", func(as *gatewaytest.AuthServer) { as.SetIss("-") }, "does not name its authorization server"},
		{"no PKCE", func(as *gatewaytest.AuthServer) { as.SetMetadata("code_challenge_methods_supported", nil) }, "does not offer PKCE"},
		{"plain PKCE", func(as *gatewaytest.AuthServer) {
			as.SetMetadata("code_challenge_methods_supported", []string{"plain"})
		}, "does not offer PKCE"},
		{"metadata of another issuer", func(as *gatewaytest.AuthServer) { as.SetClaimedIssuer("https://honest.example.com") }, "is that of another issuer"},
		{"no registration", func(as *gatewaytest.AuthServer) { as.SetMetadata("registration_endpoint", nil) }, "register the gateway there with the redirect URI http://127.0.0.1:"},
		{"token endpoint in a cloud", func(as *gatewaytest.AuthServer) { as.SetMetadata("token_endpoint", "http://169.254.169.254/token") }, "the token endpoint that the server names is not an https URL"},
		{"token endpoint in a private network", func(as *gatewaytest.AuthServer) { as.SetMetadata("token_endpoint", "https://10.0.0.1/token") }, "leads to an address that is not public"},
		{"refused", func(as *gatewaytest.AuthServer) { as.SetFail("invalid_grant") }, "the token endpoint answered HTTP 400 (invalid_grant)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			as, c := gatewaytest.NewAuthServer(t, nil), newClock()
			s := userSource(t, as, c, NewStore(""))
			tc.change(as)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan struct{})
			shown := false
			err := Login(ctx, s, 0, func(url string) {
				shown = true
				b := browser(t)
				go func() {
					defer close(done)
					if resp, err := b.Get(url); err == nil {
						resp.Body.Close()
					}
				}()
			})
			if shown {
				<-done
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if !s.NeedsGrant(nil) {
				t.Error("there is a grant")
			}
			if strings.Contains(tc.name, "issuer") || tc.name == "mix-up" {
				if n := len(as.TokenRequests(gatewaytest.GrantCode)); n != 0 {
					t.Errorf("the code was sent to the token endpoint %d times", n)
				}
			}
		})
	}
}

// TestLoginIsForOneAnswer sends requests of strangers to the callback page.
func TestLoginIsForOneAnswer(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := userSource(t, as, c, NewStore(""))
	done := make(chan struct{})
	err := Login(t.Context(), s, 0, func(url string) {
		b := browser(t)
		go func() {
			defer close(done)
			back := step(t, b, url)
			base, _, _ := strings.Cut(back, "?")
			for _, query := range []string{"", "?code=stolen", "?code=stolen&state=guessed"} {
				if status, text := open(t, b, base+query); status != http.StatusBadRequest {
					t.Errorf("%q gets %d %s", query, status, text)
				}
			}
			if status, text := open(t, b, back); status != http.StatusOK {
				t.Errorf("the answer gets %d %s", status, text)
			}
		}()
	})
	<-done
	if err != nil || s.NeedsGrant(nil) {
		t.Errorf("got %v", err)
	}
}

func TestLoginEndsWithItsContext(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := userSource(t, as, c, NewStore(""))
	ctx, cancel := context.WithCancel(t.Context())
	if err := Login(ctx, s, 0, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	own := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw"}, TokenURL: as.URL}})
	if err := Login(t.Context(), own, 0, nil); err == nil || !strings.Contains(err.Error(), "needs no grant") {
		t.Errorf("got %v", err)
	}
}

// TestLoginOnABusyPort checks that a busy port is reported before a browser is opened.
func TestLoginOnABusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	as := gatewaytest.NewAuthServer(t, nil)
	s := userSource(t, as, newClock(), NewStore(""))
	port := l.Addr().(*net.TCPAddr).Port
	err = Login(t.Context(), s, port, func(url string) { t.Errorf("the user is sent to %s", url) })
	want := fmt.Sprintf("another program uses the port %d of 127.0.0.1, to which the browser is to return: choose another port with --port, or end that program", port)
	if err == nil || err.Error() != want || as.Requests("/register") != 0 {
		t.Errorf("got %v", err)
	}
	if err := login(t, s); err != nil {
		t.Errorf("on another port: %v", err)
	}
}

// TestForgottenClient uses an authorization server that has forgotten its registered
// clients, for example after a restart.
func TestForgottenClient(t *testing.T) {
	as, c, store := gatewaytest.NewAuthServer(t, nil), newClock(), NewStore(t.TempDir())
	s := userSource(t, as, c, store)
	u := s.tokens.(*user)
	const redirect = "http://127.0.0.1:1/oauth/callback"
	grant := func(key string) {
		t.Helper()
		f, err := u.begin(t.Context(), key, redirect, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := u.finish(t.Context(), key, f, at(t, step(t, browser(t), f.url())).Query()); err != nil {
			t.Fatal(err)
		}
	}
	ann, bob := withToken("ann", "x"), withToken("bob", "y")
	grant(principalKey(ann))
	grant(principalKey(bob.In("coding")))
	for _, who := range []*call.Principal{ann, bob} { // a grant serves all profiles
		for _, profile := range []string{"", "coding", "ops"} {
			if s.NeedsGrant(who.In(profile)) {
				t.Errorf("in profile %q %s needs another grant", profile, who.Subject)
			}
		}
	}
	if n := as.Requests("/register"); n != 1 {
		t.Errorf("registered %d times for one redirect URI", n)
	}
	as.RemoveClients()
	c.pass(6 * time.Minute)
	fails(t, s, ann, "the authorization server refused the grant of this server's user (invalid_client)")
	if !s.NeedsGrant(ann) {
		t.Error("the user is not asked for another grant")
	}
	grant(principalKey(ann))
	bearer(t, s, ann)
	// The new registration of one principal stays when another one notices.
	fails(t, s, bob, "the authorization server refused the grant of this server's user (invalid_client)")
	grant(principalKey(bob))
	bearer(t, s, bob)
	if n := as.Requests("/register"); n != 2 {
		t.Errorf("registered %d times, want once more", n)
	}
}

// The gateway notices that another process has replaced its own grant.
func TestHasNewGrant(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		as, c := gatewaytest.NewAuthServer(t, nil), newClock()
		s := userSource(t, as, c, open())
		own := func(want bool) {
			t.Helper()
			if got := s.HasNewGrant(); got != want {
				t.Errorf("it has a new grant: %v, want %v", got, want)
			}
		}
		own(false)
		other := userSourceAt(t, s, open(), c)
		if err := login(t, other); err != nil {
			t.Fatal(err)
		}
		own(true)
		own(false)
		before := bearer(t, s, nil)
		c.pass(time.Second)
		if err := login(t, other); err != nil {
			t.Fatal(err)
		}
		own(true)
		if after := bearer(t, s, nil); after == before {
			t.Error("the token of the grant that was replaced is still used")
		}
		own(false)
		c.pass(6 * time.Minute)
		bearer(t, s, nil)
		own(false) // it was only renewed
		c.pass(time.Second)
		if err := login(t, other); err != nil {
			t.Fatal(err)
		}
		c.pass(grantLife)
		bearer(t, s, nil)
		own(false) // a request had it
	})
}

// TestAnotherIssuer configures another issuer than that of the stored grant.
func TestAnotherIssuer(t *testing.T) {
	as, other, c, store := gatewaytest.NewAuthServer(t, clients), gatewaytest.NewAuthServer(t, clients), newClock(), NewStore(t.TempDir())
	at := func(as *gatewaytest.AuthServer) *Source {
		return source(t, Options{Kind: User, Store: store, Now: c.now, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}})
	}
	if err := login(t, at(as)); err != nil {
		t.Fatal(err)
	}
	moved := at(other)
	if !moved.NeedsGrant(nil) {
		t.Error("the grant of one authorization server is that of another")
	}
	c.pass(6 * time.Minute)
	fails(t, moved, call.Anonymous, "the gateway has none of its own yet")
	if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != 0 {
		t.Errorf("the client's secret went %d times to where the configuration does not say", n)
	}
	if err := login(t, moved); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := other.TokenSubject(bearer(t, at(other), nil), server); !ok {
		t.Error("the new grant is not found")
	}
}

// TestConfiguredClient uses a configured client and issuer.
func TestConfiguredClient(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, clients), newClock()
	s := source(t, Options{
		Kind: User, Store: NewStore(""), Now: c.now, Scopes: []string{"x"},
		Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL},
	})
	if err := login(t, s); err != nil {
		t.Fatal(err)
	}
	c.pass(6 * time.Minute)
	if _, scopes, ok := as.TokenSubject(bearer(t, s, nil), server); !ok || strings.Join(scopes, " ") != "x offline_access" {
		t.Errorf("the scopes are %q, good: %v", scopes, ok)
	}
	if as.Requests("/register") != 0 || len(as.TokenRequests(gatewaytest.GrantRefresh)) != 1 {
		t.Errorf("registered %d times, refreshed %d times", as.Requests("/register"), len(as.TokenRequests(gatewaytest.GrantRefresh)))
	}
}

// With a configured issuer a login asks for the scopes of the configuration, else for those
// that the server names: in its challenge, or in its metadata. It may name none.
func TestScopesWithAnIssuer(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, nil)
	metadata := func(scopes string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/mcp":
				w.WriteHeader(http.StatusUnauthorized)
			case scopes != "":
				_, _ = w.Write([]byte(`{"resource":"http://` + r.Host + `/mcp","authorization_servers":["` + as.URL + `"],"scopes_supported":[` + scopes + `]}`))
			default:
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
	}
	for name, tc := range map[string]struct {
		url        string
		configured []string
		want       string
	}{
		"challenge":  {protected(t, as), nil, "read offline_access"},
		"metadata":   {serve(t, metadata(`"all"`)) + "/mcp", nil, "all offline_access"},
		"none":       {serve(t, metadata("")) + "/mcp", nil, "offline_access"},
		"configured": {protected(t, as), []string{"own"}, "own offline_access"},
	} {
		s := source(t, Options{Kind: User, URL: at(t, tc.url), Store: NewStore(""), Authority: Authority{Issuer: as.URL}, Scopes: tc.configured})
		f, err := s.tokens.(*user).begin(t.Context(), localKey, "http://127.0.0.1:1/callback", "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := strings.Join(f.params.scopes, " "); got != tc.want {
			t.Errorf("%s: asks for %q, want %q", name, got, tc.want)
		}
	}
}
