package webui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// clients are the principals of a test, by their API key.
type clients struct {
	issuerDown bool
	mu         sync.Mutex
	keys       map[string]*call.Principal
	grants     map[string]Grant // by principal
	revoked    []string
	logins     []string
}

func (f *clients) authenticate(_ http.ResponseWriter, r *http.Request, given string) (*Visitor, error) {
	if given == "" {
		given = r.Header.Get("X-Api-Key")
	}
	if given == "" {
		return nil, ErrNoCredentials
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.keys[given]; p != nil {
		return &Visitor{Principal: p, Profiles: []string{"default", "ops"}}, nil
	}
	return nil, Refused("the API key is unknown")
}

func (f *clients) withdraw(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, key)
}

// beginLogin sends nobody away while the issuer is down.
func (f *clients) beginLogin(w http.ResponseWriter, r *http.Request, issuer, next string) error {
	if f.issuerDown {
		return errors.New("the issuer does not answer")
	}
	http.Redirect(w, r, issuer+"/auth?next="+url.QueryEscape(next), http.StatusFound)
	return nil
}

// newPublicConsole returns a console at the address of MCP for ann, an operator, and bob, who is none.
func newPublicConsole(t *testing.T, console bool) (*Console, *clients) {
	t.Helper()
	of := &clients{
		keys: map[string]*call.Principal{
			"key-of-ann": {Subject: "ann", Groups: []string{"ops"}, AuthMethod: "api-key"},
			"key-of-bob": {Subject: "bob", Groups: []string{hostile}, AuthMethod: "api-key"},
		},
		grants: map[string]Grant{
			"ann": {Upstream: "tickets", Given: true, Issuer: "https://idp.example", Scopes: []string{"scope-of-ann"}, Since: time.Now()},
			"bob": {Upstream: "tickets"},
		},
	}
	c, f := newTestConsole(t, Options{Public: &Public{
		Origin: "https://gateway.example", Console: console, Authenticate: of.authenticate,
		Issuers: []string{"https://idp.example/t1"}, BeginLogin: of.beginLogin,
		LoggedIn: func(_ http.ResponseWriter, p *call.Principal) { of.logins = append(of.logins, p.Subject) },
		MayOpen:  func(p *call.Principal) bool { return p.Subject == "ann" },
		Me: Me{
			Grants: func(_ context.Context, v *Visitor) ([]Grant, error) { return []Grant{of.grants[v.Subject]}, nil },
			Revoke: func(_ context.Context, _ string, v *Visitor, upstream string) (string, error) {
				if upstream == "stuck" {
					return "", errors.New("it took too long")
				}
				of.revoked = append(of.revoked, v.Subject+" "+upstream)
				return "", nil
			},
			GrantURL: func(_ context.Context, v *Visitor, upstream string) (string, error) {
				return "https://gateway.example/oauth/start?id=" + v.Subject + upstream, nil
			},
		},
	}})
	f.policy = policy.MustNew(policy.Options{Default: policy.Allow, Rules: []policy.Rule{{Name: "few", Effect: policy.Allow, Limit: &policy.Limit{Rate: 2}}}})
	return c, of
}

// logsIn returns the cookies of a browser on this machine that has sent an API key.
func logsIn(t *testing.T, c *Console, key string) []*http.Cookie {
	t.Helper()
	w := request{method: "POST", path: "/me/login", form: url.Values{"token": {key}}}.to(c)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/me" || len(w.Result().Cookies()) != 1 {
		t.Fatalf("login: %d %v %s", w.Code, w.Header(), w.Body)
	}
	return w.Result().Cookies()
}

// At the address of MCP the console is for those whom policy names. Others learn nothing, not even that it exists.
func TestWhoMayOpenPublicConsole(t *testing.T) {
	c, _ := newPublicConsole(t, true)
	ann, bob := logsIn(t, c, "key-of-ann"), logsIn(t, c, "key-of-bob")
	key := func(k string) http.Header { return http.Header{"X-Api-Key": {k}} }
	from := func(h http.Header, name, value string) http.Header {
		h[name] = []string{value}
		return h
	}
	events := "/ui/events?page=/ui"
	for _, tt := range []struct {
		name    string
		request request
		status  int
	}{
		{"a login of an operator", request{path: "/ui", cookies: ann}, 200},
		{"the key of an operator", request{path: "/ui", header: key("key-of-ann"), from: "192.0.2.7:1"}, 200},
		{"the calls", request{path: "/ui/calls", cookies: ann}, 200},
		{"a login of somebody else", request{path: "/ui", cookies: bob}, 404},
		{"the key of somebody else", request{path: "/ui", header: key("key-of-bob")}, 404},
		{"events for somebody else", request{path: events, cookies: bob}, 404},
		{"a question of somebody else", request{method: "POST", path: "/ui/policy", cookies: bob, form: url.Values{"csrf": {tokenOn(t, request{path: "/me", cookies: bob}.to(c))}}}, 404},
		{"nobody", request{path: "/ui"}, 303},
		{"nobody on this machine", request{path: "/ui", header: http.Header{"Accept": {"text/event-stream"}}}, 401},
		{"an unknown key", request{path: "/ui", header: key("key-of-eve")}, 303},
		{"a cookie that nobody got", request{path: "/ui", cookies: []*http.Cookie{{Name: ann[0].Name, Value: "key-of-ann"}}}, 303},
		{"an unknown page", request{path: "/ui/nothing", cookies: bob}, 404},
		{"events for another origin", request{path: events, cookies: ann, header: http.Header{"Origin": {"http://127.0.0.1:3000"}}}, 403},
		{"events for a sandboxed page", request{path: events, cookies: ann, header: http.Header{"Origin": {"null"}}}, 403},
		{"events by a key for another origin", request{path: events, header: from(key("key-of-ann"), "Origin", "https://evil.example")}, 403},
		{"a frame", request{path: "/ui", cookies: ann, header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}}, 403},
		{"a frame of /me", request{path: "/me", cookies: ann, header: http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}}, 403},
		{"a form without its token", request{method: "POST", path: "/ui/policy", cookies: ann, form: url.Values{}}, 403},
		{"a form with the token of somebody else", request{method: "POST", path: "/me/revoke", cookies: ann, form: url.Values{"upstream": {"tickets"}, "csrf": {tokenOn(t, request{path: "/me", cookies: bob}.to(c))}}}, 403},
		{"a form of another site", request{method: "POST", path: "/me/revoke", cookies: ann, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, form: url.Values{"csrf": {tokenOn(t, request{path: "/me", cookies: ann}.to(c))}}}, 403},
		{"a login by another page", request{method: "POST", path: "/me/login", header: http.Header{"Origin": {"https://evil.example"}}, form: url.Values{"token": {"key-of-ann"}}}, 403},
		{"a login behind a proxy that keeps no Host", request{method: "POST", path: "/me/login", header: http.Header{"Origin": {"https://gateway.example"}}, form: url.Values{"token": {"key-of-ann"}}}, 303},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.request.to(c)
			if w.Code != tt.status {
				t.Errorf("%d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if body := w.Body.String(); tt.status != 200 && tt.status != 403 && (strings.Contains(body, "/ui/catalog") || strings.Contains(body, "files")) {
				t.Errorf("the answer with status %d shows the console: %s", w.Code, body)
			}
			if h := w.Header(); h.Get("X-Frame-Options") != "DENY" || h.Get("Access-Control-Allow-Origin") != "" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// Without the console at the address of MCP, nothing of it answers there, for operators neither.
func TestNoPublicConsole(t *testing.T) {
	c, _ := newPublicConsole(t, false)
	ann := logsIn(t, c, "key-of-ann")
	for _, path := range []string{"/ui", "/ui/", "/ui/catalog", "/ui/events?page=/ui", "/ui/login", "/ui/policy", "/ui/static/" + assetVersion + "/console.css"} {
		if w := (request{path: path, cookies: ann}).to(c); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	page := request{path: "/me", cookies: ann}.to(c)
	if page.Code != http.StatusOK || strings.Contains(page.Body.String(), `"/ui`) {
		t.Errorf("/me: %d %s", page.Code, page.Body)
	}
	if w := (request{path: assetPath(MePrefix, "console.css")}).to(c); w.Code != http.StatusOK {
		t.Errorf("the style: %d", w.Code)
	}
}

// A login is worth what its credentials are worth, each time it is used, and nothing of them is in a cookie or a page.
func TestPublicLogin(t *testing.T) {
	c, of := newPublicConsole(t, true)
	ann := logsIn(t, c, " Bearer key-of-ann ")
	if got := ann[0]; !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Path != "/" || !got.Secure || !strings.HasPrefix(got.Name, "__Host-") || strings.Contains(got.Value, "key-of-ann") {
		t.Errorf("%+v", got)
	}
	stream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.ServeHTTP(w, r) }))
	defer stream.Close()
	q, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, stream.URL+"/ui/events?page=/ui", nil)
	q.Header.Set("X-Api-Key", "key-of-ann")
	answer, err := stream.Client().Do(q)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(err, answer)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	lines.Scan()

	of.withdraw("key-of-ann")
	for lines.Scan() { // until the stream ends
	}
	if w := (request{path: "/ui", cookies: ann}).to(c); w.Code != http.StatusSeeOther {
		t.Errorf("with a key that was withdrawn: %d", w.Code)
	}
	bob := logsIn(t, c, "key-of-bob")
	of.mu.Lock()
	of.keys["key-of-bob"] = &call.Principal{Subject: "carl"}
	of.mu.Unlock()
	if w := (request{path: "/me", cookies: bob}).to(c); w.Code != http.StatusSeeOther {
		t.Errorf("with a key that somebody else has now: %d", w.Code)
	}
	if strings.Join(of.logins, " ") != "ann bob" {
		t.Errorf("logins %q", of.logins)
	}
	wrong := request{method: "POST", path: "/me/login", form: url.Values{"token": {"key-of-eve"}, "next": {"/ui/calls"}}}.to(c)
	if wrong.Code != http.StatusUnauthorized || !strings.Contains(wrong.Body.String(), "the API key is unknown") || strings.Contains(wrong.Body.String(), "key-of-eve") {
		t.Errorf("a wrong key: %d %s", wrong.Code, wrong.Body)
	}
}

// A logout ends a login.
func TestPublicLogout(t *testing.T) {
	c, _ := newPublicConsole(t, true)
	ann := logsIn(t, c, "key-of-ann")
	form := url.Values{"csrf": {tokenOn(t, request{path: "/ui", cookies: ann}.to(c))}}
	if w := (request{method: "POST", path: "/me/logout", cookies: ann, form: form}).to(c); w.Code != http.StatusSeeOther {
		t.Fatalf("%d", w.Code)
	}
	if w := (request{path: "/ui", cookies: ann}).to(c); w.Code != http.StatusSeeOther {
		t.Errorf("after the logout: %d", w.Code)
	}
}

// A key is not asked for where it would cross a network in clear text.
func TestLoginInClearText(t *testing.T) {
	c, _ := newPublicConsole(t, true)
	c.Public.Origin = ""
	if w := (request{path: "/me/login", host: "gateway.example"}).to(c); !strings.Contains(w.Body.String(), "https") || strings.Contains(w.Body.String(), "<input") {
		t.Errorf("the form: %s", w.Body)
	}
	if w := (request{method: "POST", path: "/me/login", host: "gateway.example", form: url.Values{"token": {"key-of-ann"}}}).to(c); w.Code != http.StatusForbidden {
		t.Errorf("a login: %d", w.Code)
	}
}

// Logins that fail are bounded for each network, at both addresses.
func TestLoginAttempts(t *testing.T) {
	public, _ := newPublicConsole(t, true)
	own, _ := newTestConsole(t, Options{Token: "s3cret"})
	refused := make(map[string]int)
	for _, c := range []*Console{public, own} {
		c.Refused = func(_ http.ResponseWriter, r *http.Request, status int, reason string) {
			refused[fmt.Sprint(r.URL.Path, " ", status, " ", reason)]++
		}
	}
	for c, path := range map[*Console]string{public: "/me/login", own: "/ui/login"} {
		try := func(token, from string) int {
			return request{method: "POST", path: path, from: from, form: url.Values{"token": {token}}}.to(c).Code
		}
		for range maxAttempts {
			if code := try("wrong", "[2001:db8::1]:7"); code != http.StatusUnauthorized {
				t.Fatalf("%s: %d", path, code)
			}
		}
		right := map[string]string{"/me/login": "key-of-ann", "/ui/login": "s3cret"}[path]
		if code := try(right, "[2001:db8::2]:8"); code != http.StatusTooManyRequests {
			t.Errorf("%s: after %d attempts: %d", path, maxAttempts, code)
		}
		for range 2 * maxAttempts {
			if code := try(right, "192.0.2.1:9"); code != http.StatusSeeOther {
				t.Fatalf("%s: from another network: %d", path, code)
			}
		}
	}
	// Public.Authenticate reports its refusals itself.
	want := map[string]int{"/me/login 429 " + manyAttempts: 1, "/ui/login 429 " + manyAttempts: 1, "/ui/login 401 " + wrongToken: maxAttempts}
	if !maps.Equal(refused, want) {
		t.Errorf("told as refused: %v, want %v", refused, want)
	}
	var a attempts
	now := time.Now()
	for i := range maxAllAttempts {
		a.take("192.0.2."+string(rune('0'+i%10))+":1", now)
	}
	if a.take("203.0.113.1:1", now) && a.total >= maxAllAttempts {
		t.Error("all attempts together are not bounded")
	}
	if !a.take("203.0.113.1:1", now.Add(attemptTime+1)) {
		t.Error("the bound does not end")
	}
}

// People see and revoke their own grants, and see nothing of others.
func TestMe(t *testing.T) {
	c, of := newPublicConsole(t, true)
	ann, bob := logsIn(t, c, "key-of-ann"), logsIn(t, c, "key-of-bob")
	page := request{path: "/me", cookies: ann}.to(c).Body.String()
	for _, want := range []string{"<bdi>ann</bdi>", "ops", "https://idp.example", "scope-of-ann", "2/s", "by the rule few", "default, ops", `href="/ui/catalog"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of ann lacks %q: %s", want, page)
		}
	}
	other := request{path: "/me", cookies: bob}.to(c).Body.String()
	if strings.Contains(other, "scope-of-ann") || strings.Contains(other, "ann</bdi>") || strings.Contains(other, "<script>alert") || strings.Contains(other, "/ui") {
		t.Errorf("the page of bob: %s", other)
	}
	if !strings.Contains(other, `href="/me/grant?upstream=tickets"`) {
		t.Errorf("bob cannot give a grant: %s", other)
	}
	to := request{path: "/me/grant?upstream=tickets", cookies: bob}.to(c)
	if got := to.Header().Get("Location"); to.Code != http.StatusSeeOther || got != "https://gateway.example/oauth/start?id=bobtickets" {
		t.Errorf("%d %s", to.Code, got)
	}
	form := url.Values{"upstream": {"tickets"}, "csrf": {tokenOn(t, request{path: "/me", cookies: bob}.to(c))}}
	if w := (request{method: "POST", path: "/me/revoke", cookies: bob, form: form}).to(c); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "is revoked") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	form.Set("upstream", "stuck")
	if w := (request{method: "POST", path: "/me/revoke", cookies: bob, form: form}).to(c); !strings.Contains(w.Body.String(), "is still there: it took too long") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if strings.Join(of.revoked, ",") != "bob tickets" {
		t.Errorf("revoked %q", of.revoked)
	}
	if p := c.PrincipalOf(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/oauth/start", nil)); p != nil {
		t.Errorf("nobody has logged in, but %v", p)
	}
}

// An action at the address of MCP needs the right to open the console, and admin.actions. The log says who sent it.
func TestPublicActions(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		other, done, lines := actionConsole(t, Options{})
		c, _ := newPublicConsole(t, true)
		c.Actions, c.Log = allowed, other.Log
		ann, bob := logsIn(t, c, "key-of-ann"), logsIn(t, c, "key-of-bob")
		act := func(cookies []*http.Cookie, csrf string) int {
			return request{method: "POST", path: "/ui/test-action", cookies: cookies, form: url.Values{"upstream": {"files"}, "csrf": {csrf}}}.to(c).Code
		}
		ofBob := tokenOn(t, request{path: "/me", cookies: bob}.to(c))
		if code := act(bob, ofBob); code != http.StatusNotFound {
			t.Errorf("without the right: %d", code)
		}
		if code := act(ann, ofBob); code != http.StatusForbidden {
			t.Errorf("with the form of somebody else: %d", code)
		}
		if *done != 0 {
			t.Fatal("the action was done")
		}
		code := act(ann, tokenOn(t, request{path: "/me", cookies: ann}.to(c)))
		if want := map[bool]int{true: http.StatusSeeOther, false: http.StatusForbidden}[allowed]; code != want || *done == 1 != allowed {
			t.Errorf("actions %v: %d, done %d times", allowed, code, *done)
		}
		if by := lines.All()[0].ContextMap()["by"]; lines.Len() != 1 || by != "ann (api-key)" {
			t.Errorf("logged for %v: %v", by, lines.All())
		}
	}
}

// At the address of MCP people call as themselves, in the profiles that they may use.
func TestPublicTry(t *testing.T) {
	var got *call.Call
	c, _ := newPublicConsole(t, true)
	c.Actions, c.Call = true, func(_ context.Context, made *call.Call) (call.Result, error) {
		got = made
		return call.Result{Raw: wire.Raw(`{"content":[]}`)}, nil
	}
	t.Cleanup(c.tries.close)
	ann := logsIn(t, c, "key-of-ann")
	page := request{path: "/ui/try?kind=tool&name=files__write&as=bob", cookies: ann}.to(c)
	if page.Code != http.StatusOK || strings.Contains(page.Body.String(), `name="as"`) || !strings.Contains(page.Body.String(), "<code>ann</code>") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	form := url.Values{"kind": {"tool"}, "name": {"files__write"}, "do": {"form"}, "as": {"bob"}, "csrf": {tokenOn(t, page)}}
	w := request{method: "POST", path: "/ui/try/call", form: form, cookies: ann}.to(c)
	if c.tries.wg.Wait(); w.Code != http.StatusSeeOther || got.Principal.Identity() != "api-key\x00\x00ann" || got.By != "" {
		t.Errorf("%d %s, made: %+v", w.Code, w.Body, got)
	}
	v := &tryView{filter: filter{viewpoint: viewpoint{Profile: "secret"}}}
	r := (&http.Request{}).WithContext(context.WithValue(t.Context(), visitorKey{}, &Visitor{Principal: got.Principal, Profiles: []string{"default"}}))
	if c.whoTries(r, v) || !strings.Contains(v.Problem, "profile secret") {
		t.Errorf("in a profile of others: %+v", v)
	}
}

// Event streams end when the gateway drains.
func TestDrainEndsStreams(t *testing.T) {
	c, _ := newPublicConsole(t, true)
	ended := make(chan struct{})
	q := httptest.NewRequest(http.MethodGet, "/ui/events?page=/ui", nil).WithContext(t.Context())
	q.Header.Set("X-Api-Key", "key-of-ann")
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	go func() {
		c.ServeHTTP(w, q)
		close(ended)
	}()
	c.Drain()
	c.Drain()
	<-ended
}

// deadlines is a recorder whose deadlines can be set.
type deadlines struct{ *httptest.ResponseRecorder }

func (*deadlines) SetReadDeadline(time.Time) error  { return nil }
func (*deadlines) SetWriteDeadline(time.Time) error { return nil }

// With a store a login is that of all replicas, and so is its end.
func TestSharedLogins(t *testing.T) {
	here, _ := newPublicConsole(t, true)
	there, _ := newPublicConsole(t, true)
	kept := &storetest.Memory{}
	here.Public.Shared, there.Public.Shared = kept, kept
	ann := logsIn(t, here, "key-of-ann")
	page := request{path: "/ui", cookies: ann}.to(here)
	form := url.Values{"csrf": {tokenOn(t, page)}, "kind": {"console"}}
	if w := (request{method: "POST", path: "/ui/policy", cookies: ann, form: form}).to(there); page.Code != http.StatusOK || w.Code != http.StatusOK {
		t.Errorf("at the other replica: %d %d", page.Code, w.Code)
	}
	if w := (request{method: "POST", path: "/me/logout", cookies: ann, form: form}).to(there); w.Code != http.StatusSeeOther {
		t.Fatalf("logout: %d", w.Code)
	}
	if w := (request{path: "/ui", cookies: ann}).to(here); w.Code != http.StatusSeeOther {
		t.Errorf("after the logout at the other replica: %d", w.Code)
	}
	here.Public.Shared = awayStore{}
	w := request{method: "POST", path: "/me/login", form: url.Values{"token": {"key-of-ann"}}}.to(here)
	if w.Code != http.StatusServiceUnavailable || len(w.Result().Cookies()) != 0 {
		t.Errorf("a login while the store is away: %d %v", w.Code, w.Result().Cookies())
	}
	if w := (request{path: "/ui", cookies: ann}).to(here); w.Code != http.StatusSeeOther {
		t.Errorf("a page while the store is away: %d", w.Code)
	}
}

// awayStore is a store that does not answer.
type awayStore struct{ store.Values }

func (awayStore) Get(context.Context, ...store.Key) ([][]byte, error) {
	return nil, store.ErrUnavailable
}
func (awayStore) Put(context.Context, store.Key, []byte, time.Duration) error {
	return store.ErrUnavailable
}
func (awayStore) Delete(context.Context, ...store.Key) error { return store.ErrUnavailable }
