package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/requestid"
)

// browsers sends requests for pages, without cookies, to a gateway with the keys of old, which has expired, and alice, and with
// an upstream that needs grants.
type browsers struct {
	*Gateway
	t          *testing.T
	old, alice string
	logs       *observer.ObservedLogs
}

func newBrowsers(t *testing.T) *browsers {
	b := &browsers{t: t}
	var digestOfOld, digestOfAlice string
	b.old, digestOfOld = auth.NewKey()
	b.alice, digestOfAlice = auth.NewKey()
	core, logs := observer.New(zap.InfoLevel)
	b.logs = logs
	b.Gateway, _ = startLogged(t, fmt.Sprintf(`
auth: {mode: api-key, api_keys: [{id: old, expires: 2020-01-01, sha256: %q}, {id: alice, sha256: %q}]}
admin: {token: the-token-of-operators}
upstreams: {up: {url: "http://127.0.0.1:1/mcp", auth: {kind: user}}}
`, digestOfOld, digestOfAlice), false, zap.New(core))
	return b
}

// ask returns the status, the request id and the text of an answer. A form is posted.
func (b *browsers) ask(at string, form url.Values, header ...string) (status int, request, text string) {
	b.t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, at, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get(requestid.Header), string(page)
}

// has checks that the log has one line with a message about a request, and the fields of this line.
func (b *browsers) has(message, request string, want map[string]any) {
	b.t.Helper()
	lines := b.logs.FilterMessage(message).FilterField(zap.String("request", request)).All()
	if request == "" || len(lines) != 1 {
		b.t.Errorf("%d lines %q about the request %q: %v", len(lines), message, request, b.logs.All())
		return
	}
	got := lines[0].ContextMap()
	if remote := fmt.Sprint(got["remote"]); !strings.HasPrefix(remote, "127.0.0.1:") {
		b.t.Errorf("the line %q has the remote %q", message, remote)
	}
	for name, value := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(value) {
			b.t.Errorf("the line %q has %s %v, want %v: %v", message, name, got[name], value, got)
		}
	}
}

// counted checks how many requests had credentials that failed for a reason.
func (b *browsers) counted(reason, want string) {
	b.t.Helper()
	if got := gauge(b.t, b.Gateway, fmt.Sprintf("mcp_gateway_auth_failures_total{reason=%q}", reason)); got != want {
		b.t.Errorf("%s failures are counted as %s, want %s", got, reason, want)
	}
}

// Every login that is refused has the line of a refused request, with its request id.
func TestRefusedLoginsAreLogged(t *testing.T) {
	b := newBrowsers(t)
	login, nonsense := "http://"+b.Addr()+"/me/login", "nonsense-that-nobody-logs"
	for _, tt := range []struct {
		token string
		want  map[string]any
	}{
		{b.old, map[string]any{"reason": "expired_key", "why": "the API key has expired", "key": "old"}},
		{nonsense, map[string]any{"reason": "unknown_key", "why": "the API key is unknown"}},
		{nonsense + " " + nonsense, map[string]any{"reason": "malformed"}},
	} {
		status, request, _ := b.ask(login, url.Values{"token": {tt.token}})
		if status != http.StatusUnauthorized {
			t.Errorf("HTTP %d", status)
		}
		tt.want["kind"], tt.want["path"], tt.want["http_method"] = "proof", "/me/login", "POST"
		b.has("authentication failed", request, tt.want)
		b.counted(tt.want["reason"].(string), "1")
	}
	status, request := http.StatusUnauthorized, ""
	for n := 0; status == http.StatusUnauthorized && n < 20; n++ {
		status, request, _ = b.ask(login, url.Values{"token": {b.old}})
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("HTTP %d", status)
	}
	b.has("authentication failed", request, map[string]any{"reason": "attempts", "path": "/me/login"})
	b.counted("attempts", "1")

	status, request, _ = b.ask("http://"+b.AdminAddr()+"/ui/login", url.Values{"token": {nonsense}})
	if status != http.StatusUnauthorized {
		t.Errorf("HTTP %d", status)
	}
	b.has("admin request refused", request, map[string]any{"reason": "the token is not admin.token", "status": 401, "path": "/ui/login"})
	if n := gauge(t, b.Gateway, "mcp_gateway_admin_refused_requests_total"); n != "1" {
		t.Errorf("%s refused requests are counted at the admin address", n)
	}
	for _, line := range b.logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, b.old) || strings.Contains(text, nonsense) {
			t.Errorf("the log has %s", text)
		}
	}
}

// A page that is opened without credentials is no authentication that failed. Credentials that a request has are judged.
func TestPageViewsAreNoFailures(t *testing.T) {
	b := newBrowsers(t)
	base := "http://" + b.Addr()
	link, _, err := b.web.Link(t.Context(), &call.Principal{Subject: "alice", AuthMethod: auth.MethodAPIKey}, "up")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]int{base + "/me": http.StatusSeeOther, base + "/me/login": http.StatusOK, link: http.StatusForbidden}
	for at, want := range pages {
		if status, _, text := b.ask(at, nil); status != want {
			t.Errorf("%s: HTTP %d %s", at, status, text)
		}
	}
	if status, _, _ := b.ask(base+"/me/login", url.Values{"token": {""}}); status != http.StatusUnauthorized {
		t.Errorf("an empty form: HTTP %d", status)
	}
	b.counted("missing", "0")
	if n := b.logs.FilterMessage("authentication failed").Len(); n != 0 {
		t.Errorf("the log has %d failures", n)
	}
	for at := range pages {
		_, request, _ := b.ask(at, nil, "X-API-Key", b.old)
		u, _ := url.Parse(at)
		b.has("authentication failed", request, map[string]any{"reason": "expired_key", "key": "old", "path": u.Path})
	}
	b.counted("expired_key", fmt.Sprint(len(pages)))
	if status, _, _ := b.ask(b.URL(), url.Values{}); status != http.StatusUnauthorized {
		t.Errorf("a call: HTTP %d", status)
	}
	b.counted("missing", "1")
}

// The page for a user who opens the link of a grant on another machine says what helps, and it does.
func TestLinkOnAnotherMachine(t *testing.T) {
	b := newBrowsers(t)
	link, _, err := b.web.Link(t.Context(), &call.Principal{Subject: "alice", AuthMethod: auth.MethodAPIKey}, "up")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"X-Forwarded-For", "203.0.113.9"}
	advice := "log in at http://" + b.Addr() + "/me with your API key, and open the link again"
	status, request, text := b.ask(link, nil, elsewhere...)
	if status != http.StatusForbidden || !strings.Contains(text, advice+".") {
		t.Errorf("HTTP %d %s", status, text)
	}
	lines := b.logs.FilterMessage("no grant was given").FilterField(zap.String("request", request)).All()
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), advice) {
		t.Errorf("the log has %v", lines)
	}
	p := newPerson(t, b.Gateway)
	p.logIn(b.alice)
	u, _ := url.Parse(p.base)
	var cookies []string
	for _, c := range p.http.Jar.Cookies(u) {
		cookies = append(cookies, c.String())
	}
	if _, _, text := b.ask(link, nil, append(elsewhere, "Cookie", strings.Join(cookies, "; "))...); strings.Contains(text, "cannot authenticate you") || !strings.Contains(text, "No access was granted") {
		t.Errorf("after the login, the server that does not run is no reason: %s", text)
	}
}

// Each kind of credentials has its own way to log in with a browser.
func TestHowToLogIn(t *testing.T) {
	for _, tt := range []struct{ publicURL, method, want string }{
		{"https://gw.example", auth.MethodAPIKey, "log in at https://gw.example/me with your API key"},
		{"https://gw.example:8443", auth.MethodAPIKey, "log in at https://gw.example:8443/me with your API key"},
		{"https://gw.example/mcp-gateway", auth.MethodAPIKey, "needs a public_url without a path"},
		{"https://gw.example", auth.MethodToken, "needs auth.jwt[].login for the issuer of your account"},
		{"https://gw.example", auth.MethodCertificate, "your client certificate"},
		{"https://gw.example", call.Anonymous.AuthMethod, "grant access with gateway login"},
	} {
		g := &Gateway{cfg: &config.Config{PublicURL: tt.publicURL}}
		if got := g.howToLogIn(&call.Principal{AuthMethod: tt.method}); !strings.Contains(got, tt.want) {
			t.Errorf("%s at %s: %q, want %q", tt.method, tt.publicURL, got, tt.want)
		}
	}
}
