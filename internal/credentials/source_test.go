package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

// server is the URL of an upstream on this machine where nothing listens.
const server = "http://127.0.0.1:9/mcp"

func at(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func source(t *testing.T, o Options) *Source {
	t.Helper()
	o.Upstream = "up"
	if o.URL == nil {
		o.URL = at(t, server)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bearer returns the token of a request for a principal.
func bearer(t *testing.T, s *Source, principal *call.Principal) string {
	t.Helper()
	h, err := s.Headers(t.Context(), principal)
	if err != nil {
		t.Fatalf("Headers: %v (%v)", err, errors.Unwrap(err))
	}
	token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		t.Fatalf("the headers are %v", h)
	}
	return token
}

// fails requires an error with this text.
func fails(t *testing.T, s *Source, principal *call.Principal, want string) {
	t.Helper()
	h, err := s.Headers(t.Context(), principal)
	if err == nil {
		t.Fatalf("no error but %v", h)
	}
	if _, ok := err.(*Error); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("got %T %q, want %q", err, err, want)
	}
	if all := fmt.Sprint(err, errors.Unwrap(err)); strings.Contains(all, "s3cret") {
		t.Errorf("the error shows a secret: %s", all)
	}
}

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func withToken(subject, text string) *call.Principal {
	return &call.Principal{Subject: subject, Issuer: "https://idp", AuthMethod: "jwt", Token: call.NewToken(text)}
}

var clients = map[string]string{"gw": "s3cret+ /"}

func TestOwnToken(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, clients), newClock()
	s := source(t, Options{
		Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}, Scopes: []string{"a", "b"}, Now: c.now,
	})
	first := bearer(t, s, nil)
	if sub, scopes, ok := as.TokenSubject(first, server); !ok || sub != "gw" || len(scopes) != 2 {
		t.Errorf("the token is one of %q with %q, good: %v", sub, scopes, ok)
	}
	if form := as.TokenRequests(gatewaytest.GrantClient)[0]; form.Get("client_secret") != "" || form.Get("client_id") != "" {
		t.Errorf("the secret stands in the body too: %v", form)
	}
	// All principals share the token, which is cached until it has to be replaced.
	if again := bearer(t, s, withToken("ann", "x")); again != first {
		t.Error("another token for the same")
	}
	c.pass(5*time.Minute - skew - time.Second)
	if bearer(t, s, nil) != first {
		t.Error("the token was replaced too early")
	}
	c.pass(2 * time.Second)
	if bearer(t, s, nil) == first {
		t.Error("the token was not replaced before it expires")
	}
}

func TestOneRequestForMany(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, clients)
	s := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := s.Headers(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(as.TokenRequests(gatewaytest.GrantClient)); n != 1 {
		t.Errorf("%d requests for one token", n)
	}
}

func TestWhoGivesUpLeavesTheOthersTheirToken(t *testing.T) {
	as := gatewaytest.NewAuthServer(t, clients)
	s := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Headers(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	bearer(t, s, nil)
}

func TestRefusedClient(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, clients), newClock()
	s := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: "s3cret"}, Issuer: as.URL}, Now: c.now})
	fails(t, s, nil, "the token endpoint answered HTTP 400 (invalid_client)")
	fails(t, s, nil, "invalid_client")
	if n := len(as.TokenRequests(gatewaytest.GrantClient)); n != 1 {
		t.Errorf("%d requests at once after a failure", n)
	}
	c.pass(failureLife)
	fails(t, s, nil, "invalid_client")
	if n := len(as.TokenRequests(gatewaytest.GrantClient)); n != 2 {
		t.Errorf("%d requests, want another one after a pause", n)
	}
	as.SetDown(true)
	down := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: "s3cret"}, Issuer: as.URL}})
	fails(t, down, nil, "the metadata of the authorization server is at none of its well-known URLs (HTTP 500)")
	gone := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: "s3cret"}, TokenURL: "http://127.0.0.1:1/token"}})
	fails(t, gone, nil, "the token endpoint cannot be reached")
}

// TestTemporary tells the reasons that may pass by themselves from the others. The cause has the URL and says what happened.
func TestTemporary(t *testing.T) {
	answering := func(status int, body string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	for name, test := range map[string]struct {
		issuer, tokenURL string
		cause            string
		temporary        bool
	}{
		"issuer refuses":         {issuer: "http://127.0.0.1:1", cause: "nothing listens on 127.0.0.1:1", temporary: true},
		"issuer fails":           {issuer: answering(503, "{}"), cause: "the issuer is \"http://127", temporary: true},
		"issuer is none":         {issuer: answering(404, "{}"), cause: "the issuer is \"http://127"},
		"token endpoint refuses": {tokenURL: "http://127.0.0.1:1/token", cause: "nothing listens on 127.0.0.1:1", temporary: true},
		"token endpoint fails":   {tokenURL: answering(502, "") + "/token", cause: "/token", temporary: true},
		"too many requests":      {tokenURL: answering(429, "") + "/token", cause: "/token", temporary: true},
		"client refused":         {tokenURL: answering(401, `{"error":"invalid_client"}`) + "/token", cause: "/token"},
		"not TLS":                {tokenURL: "https" + strings.TrimPrefix(answering(200, ""), "http") + "/token", cause: "/token: http: server gave HTTP response to HTTPS client", temporary: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: "s3cret"}, Issuer: test.issuer, TokenURL: test.tokenURL}})
			_, err := s.Headers(t.Context(), nil)
			e, ok := err.(*Error)
			if !ok || e.Temporary() != test.temporary || !strings.Contains(fmt.Sprint(e.Unwrap()), test.cause) || strings.Contains(e.Error(), "127.0.0.1") {
				t.Errorf("got %v because of %v, temporary: %v", err, errors.Unwrap(err), ok && e.Temporary())
			}
		})
	}
}

func TestRefusedToken(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, clients), newClock()
	s := source(t, Options{Kind: Own, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}, Now: c.now})
	sent, err := s.Headers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// A token that is refused immediately is not replaced.
	if again, err := s.Refused(t.Context(), nil, sent, 401, nil); again || err != nil {
		t.Errorf("young: %v, %v", again, err)
	}
	c.pass(minTokenAge)
	first := bearer(t, s, nil)
	c.pass(minTokenAge)
	sent = http.Header{"Authorization": {"Bearer " + first}}
	if again, err := s.Refused(t.Context(), nil, sent, 403, nil); again || err != nil {
		t.Errorf("403: %v, %v", again, err)
	}
	if again, err := s.Refused(t.Context(), nil, sent, 401, nil); !again || err != nil {
		t.Errorf("401: %v, %v", again, err)
	}
	second := bearer(t, s, nil)
	if second == first {
		t.Error("the refused token is sent again")
	}
	// Another request with the first token is refused later.
	if again, err := s.Refused(t.Context(), nil, sent, 401, nil); !again || err != nil || bearer(t, s, nil) != second {
		t.Errorf("late: %v, %v", again, err)
	}
}

// TestExchange checks that the token of a principal is sent to the token endpoint only.
func TestExchange(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, clients), newClock()
	none := ""
	o := Options{
		Kind: Exchange, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}, Resource: &none, Audience: "api", Now: c.now,
	}
	s := source(t, o)
	brought := as.Token("gateway", map[string]any{"sub": "ann"})
	ann := withToken("ann", brought)
	got := bearer(t, s, ann)
	if sub, _, ok := as.TokenSubject(got, "api"); !ok || sub != "ann" || got == brought {
		t.Errorf("the token is one of %q, good: %v; the same: %v", sub, ok, got == brought)
	}
	form := as.TokenRequests(gatewaytest.GrantExchange)[0]
	if form.Get("subject_token") != brought || form.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:access_token" || form.Has("resource") {
		t.Errorf("asked with %v", form)
	}
	if bearer(t, s, ann) != got {
		t.Error("exchanged again")
	}
	bob := bearer(t, s, withToken("bob", as.Token("gateway", map[string]any{"sub": "bob"})))
	if sub, _, _ := as.TokenSubject(bob, "api"); sub != "bob" {
		t.Errorf("bob got a token of %q", sub)
	}
	// Another token of ann may have other rights.
	if bearer(t, s, withToken("ann", as.Token("gateway", map[string]any{"sub": "ann", "jti": "2"}))) == got {
		t.Error("another token was not exchanged")
	}
	fails(t, s, &call.Principal{Subject: "ci", AuthMethod: "api-key"}, "did not authenticate with an access token that can be exchanged")
	if sub, _, ok := as.TokenSubject(bearer(t, s, nil), "api"); !ok || sub != "gw" {
		t.Errorf("the gateway's own requests carry a token of %q", sub)
	}
	o.Authority.Secret = ""
	if h, err := source(t, o).Headers(t.Context(), nil); err != nil || len(h) != 0 {
		t.Errorf("a gateway that cannot prove who it is sends %v, %v", h, err)
	}
	as.SetFail("invalid_target")
	fails(t, s, withToken("eve", "e.e.e"), "the token endpoint answered HTTP 400 (invalid_target)")
}

// TestSessionsOutliveTokens sends a request of a session whose token has expired.
func TestSessionsOutliveTokens(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, clients), newClock()
	s := source(t, Options{Kind: Exchange, Authority: Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: as.URL}, Now: c.now})
	old, next := withToken("ann", as.Token("gw", map[string]any{"jti": "1"})), withToken("ann", as.Token("gw", map[string]any{"jti": "2"}))
	old.Expires, next.Expires = c.now().Add(time.Minute), c.now().Add(time.Hour)
	bearer(t, s, old)
	bearer(t, s, next)
	bearer(t, s, old)
	c.pass(10 * time.Minute)
	bearer(t, s, old)
	posts := as.TokenRequests(gatewaytest.GrantExchange)
	if last := posts[len(posts)-1].Get("subject_token"); len(posts) != 3 || last != next.Token.Reveal() {
		t.Errorf("%d exchanges, the last of the expired token: %v", len(posts), last == old.Token.Reveal())
	}
	bob := withToken("bob", as.Token("gw", map[string]any{"sub": "bob"}))
	bob.Expires = c.now().Add(-time.Second)
	if sub, _, _ := as.TokenSubject(bearer(t, s, bob), server); sub != "bob" {
		t.Errorf("bob got a token of %q", sub)
	}
}

// TestExchangeThatGivesTheTokenBack uses a token endpoint that returns the client's
// token, which must not be sent to the upstream.
func TestExchangeThatGivesTheTokenBack(t *testing.T) {
	echo := gatewaytest.NewAuthServer(t, clients)
	echo.SetMetadata("token_endpoint", serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, r.PostFormValue("subject_token"))
	}))
	s := source(t, Options{Kind: Exchange, Authority: Authority{Client: Client{ID: "gw"}, Issuer: echo.URL}})
	fails(t, s, withToken("ann", "a.b.c"), "returned the caller's own token")
}

func TestEnterprise(t *testing.T) {
	idp, as := gatewaytest.NewAuthServer(t, clients), gatewaytest.NewAuthServer(t, map[string]string{"gw-there": "other"})
	s := source(t, Options{
		Kind: Enterprise, Scopes: []string{"a"}, SubjectType: "id_token",
		IdP:       Authority{Client: Client{ID: "gw", Secret: clients["gw"]}, Issuer: idp.URL},
		Authority: Authority{Client: Client{ID: "gw-there", Secret: "other"}, Issuer: as.URL},
	})
	brought := idp.Token("gateway", map[string]any{"sub": "ann"})
	got := bearer(t, s, withToken("ann", brought))
	if sub, scopes, ok := as.TokenSubject(got, server); !ok || sub != "ann" || len(scopes) != 1 {
		t.Errorf("the token is one of %q with %q, good: %v", sub, scopes, ok)
	}
	asked := idp.TokenRequests(gatewaytest.GrantExchange)[0]
	for name, want := range map[string]string{
		"requested_token_type": gatewaytest.TokenTypeJAG, "audience": as.URL, "resource": server, "subject_token": brought,
		"subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
	} {
		if asked.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, asked.Get(name), want)
		}
	}
	if grant := as.TokenRequests(gatewaytest.GrantJWT)[0].Get("assertion"); grant == brought || grant == "" {
		t.Errorf("the upstream's authorization server got %q", grant)
	}
	// The upstream's authorization server does not see the principal's token.
	for _, form := range append(as.TokenRequests(gatewaytest.GrantJWT), as.TokenRequests(gatewaytest.GrantExchange)...) {
		if strings.Contains(form.Encode(), url.QueryEscape(brought)) {
			t.Error("the principal's token went to the upstream's authorization server")
		}
	}
	idp.SetFail("access_denied")
	fails(t, s, withToken("bob", "b.b.b"), "the token endpoint of the identity provider answered HTTP 400 (access_denied)")
}
