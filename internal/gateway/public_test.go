package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/requestid"
)

// person is a browser at the address of MCP.
type person struct {
	t       *testing.T
	base    string
	http    *http.Client
	request string // the id of its requests, "" for none
}

func newPerson(t *testing.T, g *Gateway) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{t: t, base: "http://" + g.Addr(), http: &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// send sends a request, and follows redirections with the same id.
func (p *person) send(method, path string, body io.Reader) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.request != "" {
		r.Header.Set(requestid.Header, p.request)
	}
	res, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (p *person) get(path string) (int, string) {
	p.t.Helper()
	return p.send(http.MethodGet, path, nil)
}

func (p *person) post(path string, form url.Values) (int, string) {
	p.t.Helper()
	return p.send(http.MethodPost, path, strings.NewReader(form.Encode()))
}

func (p *person) logIn(credentials string) string {
	p.t.Helper()
	status, page := p.post("/me/login", url.Values{"token": {credentials}})
	if status != http.StatusOK || !strings.Contains(page, "<h1>Me</h1>") {
		p.t.Fatalf("login: %d %s", status, page)
	}
	return page
}

var csrfIn = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// publicUI starts a gateway with a public console. ann has a token, and is an operator; bob has an API key.
func publicUI(t *testing.T, ui config.UI) (c *credentialsTest, keyOfBob string, as *gatewaytest.AuthServer) {
	idp := gatewaytest.NewAuthServer(t, map[string]string{"gw": "pass"})
	as = gatewaytest.NewAuthServer(t, nil)
	v := newVault(t, as, true, "use")
	as.SetUser("service")
	key, digest := auth.NewKey()
	login := logIn(t, "up")
	c = startCredentials(t, idp, fmt.Sprintf("  up: {url: %q, auth: {kind: user}}\n", v.url), func(cfg *config.Config) {
		login(cfg)
		cfg.Admin.UI = ui
		cfg.Auth.Mode = append(cfg.Auth.Mode, config.AuthKey)
		cfg.Auth.APIKeys = []config.APIKey{{ID: "bob", SHA256: digest}}
		cfg.Policy.Rules = append(cfg.Policy.Rules, config.Rule{Name: "operators", Effect: config.Allow, Who: config.Who{Subjects: []string{"ann"}}, What: config.What{Admin: true}})
	})
	<-c.g.started
	return c, key, as
}

// People log in with what their clients send, see what is theirs, give a grant and revoke it. Only those whom a rule
// names see the console.
func TestPublicUI(t *testing.T) {
	c, key, as := publicUI(t, config.UIPublic)
	ann, bob := newPerson(t, c.g), newPerson(t, c.g)
	if status, page := ann.get("/ui"); status != http.StatusOK || !strings.Contains(page, "API key or access token") || strings.Contains(page, "Overview") {
		t.Errorf("before the login: %d %s", status, page)
	}
	token := c.tokenOf("ann")
	ann.logIn(token)
	bob.request = "login-of-bob"
	bob.logIn(key)
	if status, page := ann.get("/ui/catalog"); status != http.StatusOK || !strings.Contains(page, "up__who") {
		t.Errorf("an operator: %d %s", status, page)
	}
	for _, path := range []string{"/ui", "/ui/catalog", "/ui/calls", "/ui/events?page=/ui"} {
		if status, page := bob.get(path); status != http.StatusNotFound || strings.Contains(page, `href="/ui`) {
			t.Errorf("%s for somebody else: %d %s", path, status, page)
		}
	}

	// The login stands for the one at the issuer, so bob can give a grant although no issuer knows him.
	as.SetUser("bob at the server")
	bob.request = "grant-of-bob"
	if status, page := bob.get("/me/grant?upstream=up"); status != http.StatusOK || !strings.Contains(page, "Access to up is granted") {
		t.Fatalf("a grant: %d %s", status, page)
	}
	_, page := bob.get("/me")
	if !strings.Contains(page, as.URL) || !strings.Contains(page, "Revoke") {
		t.Errorf("after the grant: %s", page)
	}
	if _, other := ann.get("/me"); strings.Contains(other, as.URL) || !strings.Contains(other, "Grant access") {
		t.Errorf("ann sees the grant of bob: %s", other)
	}
	of := csrfIn.FindStringSubmatch(page)[1]
	if status, _ := ann.post("/me/revoke", url.Values{"upstream": {"up"}, "csrf": {of}}); status != http.StatusForbidden {
		t.Errorf("with the form of bob: %d", status)
	}
	tokens := as.RefreshTokens()
	bob.request = "revocation-of-bob"
	if status, page := bob.post("/me/revoke", url.Values{"upstream": {"up"}, "csrf": {of}}); status != http.StatusOK || !strings.Contains(page, "is revoked") || strings.Contains(page, as.URL) {
		t.Errorf("revoke: %d %s", status, page)
	}
	if now := as.RefreshTokens(); now != tokens-1 {
		t.Errorf("the authorization server has %d refresh tokens, had %d", now, tokens)
	}
	if status, page := bob.get("/me/grant?upstream=other"); status != http.StatusConflict || !strings.Contains(page, "no server of this name") {
		t.Errorf("a grant for nothing: %d %s", status, page)
	}

	for line, request := range map[string]string{
		"somebody logged in to the pages of the gateway": "login-of-bob", "a grant was given": "grant-of-bob", "a grant was revoked by its user": "revocation-of-bob",
	} {
		lines := c.logs.FilterMessage(line)
		if lines.FilterField(zap.String("principal", "bob")).FilterField(zap.String("request", request)).Len() != 1 {
			t.Errorf("%q is not logged with the principal and the request id: %v", line, lines.All())
		}
	}
	if left := c.logs.FilterMessageSnippet(token).Len() + c.logs.FilterMessageSnippet(key).Len(); left > 0 {
		t.Error("credentials are in the log")
	}
	if res, _ := openPage(t, c.g, "/ui", "page.example"); res.StatusCode != http.StatusForbidden {
		t.Errorf("a name that was rebound: %s", res.Status)
	}
	if res, _ := openPage(t, c.g, "/me", "page.example"); res.StatusCode != http.StatusForbidden {
		t.Errorf("a name that was rebound, at /me: %s", res.Status)
	}
	eve := newPerson(t, c.g)
	if status, page := eve.post("/me/login", url.Values{"token": {c.idp.Token("other", map[string]any{"sub": "ann"})}}); status != http.StatusUnauthorized || !strings.Contains(page, "not issued for this server") {
		t.Errorf("a token for another server: %d %s", status, page)
	}

	// A login ends with its key.
	if _, err := c.g.auth.SetKeys(nil); err != nil {
		t.Fatal(err)
	}
	if _, page := bob.get("/me"); !strings.Contains(page, "Log in") || strings.Contains(page, "<h1>Me</h1>") {
		t.Errorf("with a key that was removed: %s", page)
	}
}

// Without admin.ui: public nothing of the console answers at the address of MCP. /me is there if a server needs grants of users.
func TestNothingPublicUnlessSaid(t *testing.T) {
	c, key, _ := publicUI(t, config.UIOn)
	bob, ann := newPerson(t, c.g), newPerson(t, c.g)
	bob.logIn(key)
	ann.logIn(c.tokenOf("ann"))
	for _, path := range []string{"/ui", "/ui/catalog", "/ui/events?page=/ui", "/ui/login"} {
		res, nothing := openPage(t, c.g, "/nothing", "")
		if status, page := ann.get(path); status != res.StatusCode || page != nothing {
			t.Errorf("%s: %d %s; another path: %d %s", path, status, page, res.StatusCode, nothing)
		}
	}
	if _, page := ann.get("/me"); strings.Contains(page, "/ui") || !strings.Contains(page, "Grant access") {
		t.Errorf("/me: %s", page)
	}

	g, _ := start(t, "auth: {mode: api-key, api_keys: [{id: ci, sha256: 2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683}]}\nupstreams: {a: {command: cat, disabled: true}}\n", false)
	for _, path := range []string{"/me", "/me/login", "/ui"} {
		if res, _ := openPage(t, g, path, ""); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s of a gateway without grants: %s", path, res.Status)
		}
	}
}
