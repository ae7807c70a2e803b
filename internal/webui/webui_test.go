package webui

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/wire"
)

// hostile is what a server may call itself: script, markup, control characters, a turned direction of writing.
const hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{.}}\x1b[31m\u202egnp\u200b\x00"

// fake is the gateway behind the console of a test.
type fake struct {
	inspect.Gateway
	t      *testing.T
	tools  []wire.Raw
	policy *policy.Policy

	mu        sync.Mutex
	upstreams []inspect.Upstream
}

func (f *fake) Upstreams() []inspect.Upstream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.upstreams
}

func (f *fake) set(to []inspect.Upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.upstreams = to
}

func (f *fake) Profiles() []inspect.Profile     { return []inspect.Profile{{Name: "default"}} }
func (f *fake) Profile(string) *profile.Profile { return nil }
func (f *fake) Policy() *policy.Policy          { return f.policy }
func (f *fake) ListedTools(string) []wire.Raw   { return f.tools }
func (f *fake) Current(id string) *catalog.Table {
	if id != "" {
		return nil
	}
	return f.TableUnder(f.policy, nil)
}

func (f *fake) TableUnder(p *policy.Policy, _ *profile.Profile) *catalog.Table {
	naming, err := namespace.New("files", "files", "__")
	if err != nil {
		f.t.Fatal(err)
	}
	src := catalog.Source{Naming: naming, Revision: wire.Rev20251125, Capabilities: wire.Raw(`{"tools":{},"prompts":{},"resources":{}}`)}
	bad := wire.String(hostile)
	src.Items[call.Tool] = f.tools
	src.Items[call.Prompt] = []wire.Raw{wire.SetMember(wire.Raw(`{"name":"ask","arguments":[{"name":"topic","required":true}]}`), "description", bad)}
	src.Items[call.Resource] = []wire.Raw{wire.SetMember(wire.Raw(`{"uri":"file:///a","mimeType":"text/html"}`), "name", bad)}
	src.Items[call.Template] = []wire.Raw{wire.SetMember(wire.Raw(`{"uriTemplate":"file:///{path}"}`), "name", bad)}
	return catalog.Build(catalog.Options{Policy: p}, []catalog.Source{src})
}

// testTools are what the upstream files lists.
var testTools = []wire.Raw{
	wire.SetMember(wire.SetMember(wire.Raw(`{"name":"read","title":"Read a file","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","required":["path"],`+
		`"properties":{"path":{"type":"string","format":"uri","default":"<b>"},"mode":{"enum":["a","<i>"]},"deep":{"type":"array","items":{"$ref":"#/$defs/d"}}},"$defs":{"d":{"type":"object","properties":{"leaf":{"type":"number","minimum":3}}}}}}`),
		"description", wire.String(hostile)), "outputSchema", wire.Raw(`{"type":"object","properties":{"out":{"type":"string"}}}`)),
	wire.Raw(`{"name":"write","description":"Writes\nmuch","annotations":{"destructiveHint":true},"inputSchema":{"type":"object"}}`),
	wire.Raw(`{"name":"<script>alert(1)</script>","inputSchema":{"type":"object"}}`),
	wire.Raw(`{"name":"faulty","inputSchema":{"type":"string"}}`),
}

// newTestConsole returns the console of a gateway with one hostile upstream.
func newTestConsole(t *testing.T, o Options) (*Console, *fake) {
	t.Helper()
	f := &fake{t: t, tools: testTools, policy: policy.MustNew(policy.Options{Default: policy.Allow}), upstreams: []inspect.Upstream{
		{
			Name: "files", State: connector.Ready, Since: time.Now(), Transport: "stdio", Revision: wire.Rev20251125,
			Server:    wire.SetMember(wire.Raw(`{"version":"1"}`), "title", wire.String(hostile)),
			LastError: &inspect.Trouble{Reason: hostile, At: time.Now()},
		},
		{Name: "web", State: connector.Down, Since: time.Now(), Reason: "down: " + hostile},
	}}
	registry := prometheus.NewRegistry()
	o.Inspector = inspect.New(f)
	if o.History == nil {
		o.History = inspect.NewHistory(registry, nil)
	}
	if o.Calls == nil {
		o.Calls = &inspect.CallLog{}
	}
	if o.Sessions == nil {
		o.Sessions = testSessions
	}
	if o.Config == nil {
		o.Config = func() *Configuration {
			return &Configuration{Settings: []Setting{{"listen", "127.0.0.1:1", true}, {"upstreams.files.args", hostile, false}}, Warnings: []string{"gateway.yaml:1:2: " + hostile}}
		}
	}
	if o.Pins.Held == nil {
		o.Pins.Held = func() ([]HeldTools, bool, error) { return testHeld, true, nil }
	}
	if o.Grants.List == nil {
		o.Grants.List = func(context.Context) ([]StoredGrant, error) { return testGrants, nil }
	}
	if o.Status == nil {
		o.Status = func() (*inspect.Status, error) {
			return o.Inspector.Status(inspect.Process{Version: "1.2.3", File: hostile, Started: time.Now(), Metrics: registry})
		}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return New(o), f
}

// request is one request of a test, as a browser on this machine would send it.
type request struct {
	method, path, host, from string
	header                   http.Header
	form                     url.Values
	cookies                  []*http.Cookie
}

func (q request) to(h http.Handler) *httptest.ResponseRecorder {
	if q.method == "" {
		q.method = http.MethodGet
	}
	var body io.Reader
	if q.form != nil {
		body = strings.NewReader(q.form.Encode())
	}
	r := httptest.NewRequest(q.method, q.path, body)
	r.Host, r.RemoteAddr = "127.0.0.1:9090", "127.0.0.1:1"
	if q.host != "" {
		r.Host = q.host
	}
	if q.from != "" {
		r.RemoteAddr = q.from
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	if q.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range q.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	requestid.Handler(h).ServeHTTP(w, r)
	return w
}

var formToken = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// tokenOn returns the token of the forms on a page.
func tokenOn(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	found := formToken.FindStringSubmatch(w.Body.String())
	if found == nil {
		t.Fatalf("no form in %d %s", w.Code, w.Body)
	}
	return found[1]
}

// login returns the cookies of a browser that has sent the token.
func login(t *testing.T, c *Console, token string) []*http.Cookie {
	t.Helper()
	w := request{method: "POST", path: "/ui/login", form: url.Values{"token": {token}}}.to(c)
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return w.Result().Cookies()
}

// The token, the place and the way of a request decide whether it is served.
func TestWhoMayLook(t *testing.T) {
	site := func(site, mode, dest string) http.Header {
		return http.Header{"Sec-Fetch-Site": {site}, "Sec-Fetch-Mode": {mode}, "Sec-Fetch-Dest": {dest}}
	}
	for _, tt := range []struct {
		name, token string
		request     request
		status      int
	}{
		{"on this machine", "", request{path: "/ui"}, 200},
		{"by version 6", "", request{path: "/ui", host: "[::1]:9090", from: "[::1]:1"}, 200},
		{"from elsewhere", "", request{path: "/ui", from: "192.0.2.7:1"}, 403},
		{"through a proxy on this machine", "", request{path: "/ui", header: http.Header{"X-Forwarded-For": {"192.0.2.7"}}}, 403},
		{"a name that was rebound", "", request{path: "/ui", host: "page.example:9090"}, 403},
		{"events for a name that was rebound", "", request{path: "/ui/events?page=/ui", host: "page.example:9090"}, 403},
		{"a link on another page", "", request{path: "/ui", header: site("cross-site", "navigate", "document")}, 200},
		{"a link typed by a person", "", request{path: "/ui", header: site("none", "navigate", "document")}, 200},
		{"a frame of another site", "", request{path: "/ui", header: site("cross-site", "navigate", "iframe")}, 403},
		{"a frame of another port", "", request{path: "/ui", header: site("same-site", "navigate", "iframe")}, 403},
		{"read by a script of another port", "", request{path: "/ui", header: site("same-site", "cors", "empty")}, 403},
		{"events for another port", "", request{path: "/ui/events?page=/ui", header: site("same-site", "cors", "empty")}, 403},
		{"events for another origin", "", request{path: "/ui/events?page=/ui", header: http.Header{"Origin": {"http://127.0.0.1:3000"}}}, 403},
		{"events for a sandboxed page", "", request{path: "/ui/events?page=/ui", header: http.Header{"Origin": {"null"}}}, 403},
		{"two origins", "", request{path: "/ui", header: http.Header{"Origin": {"http://127.0.0.1:9090", "http://evil.example"}}}, 403},
		{"an image of another site", "", request{path: "/ui/static/" + assetVersion + "/icon.svg", header: site("cross-site", "no-cors", "image")}, 403},
		{"no such page", "", request{path: "/ui/nothing"}, 404},
		{"a form of another site", "", request{method: "POST", path: "/ui/theme", header: site("cross-site", "navigate", "document"), form: url.Values{}}, 403},
		{"a form without its token", "", request{method: "POST", path: "/ui/theme", form: url.Values{"theme": {"dark"}}}, 403},
		{"a form with a wrong token", "", request{method: "POST", path: "/ui/theme", form: url.Values{"csrf": {"x"}}}, 403},
		{"with a token, before the login", "s3cret", request{path: "/ui"}, 303},
		{"events before the login", "s3cret", request{path: "/ui/events?page=/ui", header: http.Header{"Accept": {"text/event-stream"}}}, 401},
		{"a form before the login", "s3cret", request{method: "POST", path: "/ui/theme", form: url.Values{}}, 401},
		{"a page that does not exist, before the login", "s3cret", request{path: "/ui/nothing"}, 303},
		{"a cookie that nobody got", "s3cret", request{path: "/ui", cookies: []*http.Cookie{{Name: "mcpgateway_console_9090", Value: "s3cret"}}}, 303},
		{"an empty cookie", "s3cret", request{path: "/ui", cookies: []*http.Cookie{{Name: "mcpgateway_console_9090", Value: ""}}}, 303},
		{"with the token, by a program elsewhere", "s3cret", request{path: "/ui", from: "192.0.2.7:1", header: http.Header{"Authorization": {"Bearer s3cret"}}}, 200},
		{"with a wrong token", "s3cret", request{path: "/ui", header: http.Header{"Authorization": {"Bearer s3creT"}}}, 303},
		{"a form of a page after the login", "s3cret", request{method: "POST", path: "/ui/policy", form: url.Values{}, header: http.Header{"Accept": {"text/html"}, "Referer": {"http://127.0.0.1/ui/policy"}}}, 401},
		{"a wrong token in the form", "s3cret", request{method: "POST", path: "/ui/login", form: url.Values{"token": {"s3creT"}}}, 401},
		{"a login by another page", "s3cret", request{method: "POST", path: "/ui/login", header: http.Header{"Origin": {"https://evil.example"}}, form: url.Values{"token": {"s3cret"}}}, 403},
		{"another method", "", request{method: "DELETE", path: "/ui"}, 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newTestConsole(t, Options{Token: tt.token})
			w := tt.request.to(c)
			if w.Code != tt.status {
				t.Errorf("%d, want %d: %s", w.Code, tt.status, w.Body)
			}
			if strings.Contains(w.Body.String(), "files") != (tt.status == 200) {
				t.Errorf("the page of a request with status %d: %s", w.Code, w.Body)
			}
			h := w.Header()
			if h.Get("Referrer-Policy") == "no-referrer" { // browsers then send the forms of the console with the Origin null
				t.Error("the forms of the console are refused")
			}
			if h.Get("X-Frame-Options") != "DENY" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// A login gives a cookie that is worth as much as the token, until the logout.
func TestLogin(t *testing.T) {
	c, _ := newTestConsole(t, Options{Token: "s3cret"})
	cookies := login(t, c, "s3cret")
	if got := cookies[0]; !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Secure || got.Path != "/ui" || strings.Contains(got.Value, "s3cret") {
		t.Errorf("%+v", got)
	}
	page := request{path: "/ui", cookies: cookies, from: "192.0.2.7:1"}.to(c)
	if page.Code != 200 {
		t.Fatalf("%d %s", page.Code, page.Body)
	}
	// The token of a form belongs to its session.
	other := tokenOn(t, request{path: "/ui", cookies: login(t, c, "s3cret")}.to(c))
	if w := (request{method: "POST", path: "/ui/logout", cookies: cookies, form: url.Values{"csrf": {other}}}).to(c); w.Code != 403 {
		t.Errorf("with the form of another session: %d", w.Code)
	}
	if w := (request{method: "POST", path: "/ui/logout", cookies: cookies, form: url.Values{"csrf": {tokenOn(t, page)}}}).to(c); w.Code != 303 {
		t.Errorf("logout: %d %s", w.Code, w.Body)
	}
	if w := (request{path: "/ui", cookies: cookies}).to(c); w.Code != 303 {
		t.Errorf("after the logout: %d", w.Code)
	}
	secure := request{method: "POST", path: "/ui/login", header: http.Header{"X-Forwarded-Proto": {"https"}}, form: url.Values{"token": {"s3cret"}}}.to(c)
	if !secure.Result().Cookies()[0].Secure {
		t.Error("behind TLS the cookie is not Secure")
	}
}

// After a login the browser goes to a page of the console, and nowhere else.
func TestNextPage(t *testing.T) {
	c, _ := newTestConsole(t, Options{Token: "s3cret"})
	for next, want := range map[string]string{
		"/ui?x=1": "/ui?x=1", "": "/ui", "https://evil.example/ui": "/ui", "//evil.example/ui": "/ui", "/\\evil.example": "/ui", "/ui/../x": "/ui", "javascript:alert(1)": "/ui", "/ui/login": "/ui",
	} {
		w := request{method: "POST", path: "/ui/login", form: url.Values{"token": {"s3cret"}, "next": {next}}}.to(c)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

// Sessions are bounded, and expire.
func TestSessions(t *testing.T) {
	s, now := newSessions(), time.Now()
	own := s.open(now, session{owner: "ann"})
	for i := range maxOwnSessions {
		s.open(now.Add(time.Duration(i+1)*time.Millisecond), session{owner: "ann"})
	}
	if len(s.all) != maxOwnSessions || s.knows(own, now) {
		t.Errorf("one owner has %d sessions, first %v", len(s.all), s.knows(own, now))
	}
	s = newSessions()
	first := s.open(now, session{owner: "ann"})
	for i := range maxSessions - 1 {
		s.open(now.Add(time.Duration(i+1)*time.Second), session{owner: strconv.Itoa(i)})
	}
	second := s.open(now.Add(time.Hour), session{owner: "bob"})
	if len(s.all) != maxSessions || s.knows(first, now) || !s.knows(second, now) {
		t.Errorf("%d sessions, first %v, second %v", len(s.all), s.knows(first, now), s.knows(second, now))
	}
	if s.knows(second, now.Add(time.Hour+sessionLife)) {
		t.Error("a session does not expire")
	}
}

// Nothing of a server becomes markup or hides, on any page.
func TestHostileText(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	for _, p := range pages {
		if p.hidden != "" {
			continue
		}
		w := request{path: p.href()}.to(c)
		checkHarmless(t, p.name, w.Body.String())
	}
	body := request{path: "/ui"}.to(c).Body.String()
	for _, want := range []string{"&lt;script&gt;alert(1)&lt;/script&gt;", "⟨U+001B⟩", "⟨U+202E⟩", "⟨U+200B⟩"} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview lacks %s", want)
		}
	}
}

// inline are the things that the Content Security Policy forbids, and would make visible only in a browser.
var inline = regexp.MustCompile(`<script>|<img src=x|\son\w+=|\sstyle=|<style|javascript:`)

func checkHarmless(t *testing.T, name, html string) {
	t.Helper()
	if found := inline.FindString(html); found != "" && !strings.HasPrefix(found, " onerror") {
		t.Errorf("%s has %q: %s", name, found, html)
	}
	if strings.ContainsAny(html, "\x00\x1b\u202e\u200b") {
		t.Errorf("%s has invisible characters", name)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":                  "plain\n\ttext",
		"a\x1bb":                         "a⟨U+001B⟩b",
		"\x7f\r":                         "⟨U+007F⟩⟨U+000D⟩",
		"a\u0085b":                       "a⟨U+0085⟩b",
		"\u202eabc\u2066":                "⟨U+202E⟩abc⟨U+2066⟩",
		"\xff\xc3":                       "⟨xFF⟩⟨xC3⟩",
		"\u2028":                         "⟨U+2028⟩",
		"grüße, 文字, ⚠\ufe0f, 1\u202f000": "grüße, 文字, ⚠\ufe0f, 1\u202f000",
		"a\ufe0f":                        "a⟨U+FE0F⟩",
		"\U000e0041":                     "⟨U+E0041⟩",
		"\ufffd":                         "\ufffd",
	} {
		if got := string(visible([]byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// The stream of a page sends each region at first, and later those that have changed.
func TestEvents(t *testing.T) {
	c, f := newTestConsole(t, Options{})
	server := httptest.NewServer(c)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/ui/events?page=%2Fui", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func(region, text string) {
		t.Helper()
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, `"id":"`+region+`"`) && strings.Contains(line, text) {
				checkHarmless(t, region, line)
				return
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
	}
	next("upstreams", "files")
	changed := append([]inspect.Upstream(nil), f.upstreams...)
	changed[0].State, changed[0].Reason = connector.Degraded, "resources/list fails"
	f.set(changed)
	next("attention", "resources/list fails")
	http.DefaultClient.CloseIdleConnections()
}

// A stream needs a page of the console, and there is a bound on streams.
func TestEventsAreBounded(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	for _, at := range []string{"", "/ui/nothing", "https://evil.example/ui", "/ui/events", "/ui/login"} {
		if w := (request{path: "/ui/events?page=" + url.QueryEscape(at)}).to(c); w.Code != 400 {
			t.Errorf("%q: %d", at, w.Code)
		}
	}
	for range maxStreams {
		c.streams <- struct{}{}
	}
	if w := (request{path: "/ui/events?page=/ui"}).to(c); w.Code != 503 {
		t.Errorf("one stream too many: %d", w.Code)
	}
}

// The theme is kept in a cookie, so that a page has it from its first byte on.
func TestTheme(t *testing.T) {
	c, _ := newTestConsole(t, Options{})
	token := tokenOn(t, request{path: "/ui"}.to(c))
	w := request{method: "POST", path: "/ui/theme", form: url.Values{"csrf": {token}, "theme": {"dark"}, "next": {"/ui"}}}.to(c)
	if w.Code != 303 || len(w.Result().Cookies()) != 1 {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if page := (request{path: "/ui", cookies: w.Result().Cookies()}).to(c).Body.String(); !strings.Contains(page, `data-theme="dark"`) {
		t.Error(page)
	}
	if w := (request{method: "POST", path: "/ui/theme", form: url.Values{"csrf": {token}, "theme": {"\"x"}}}).to(c); len(w.Result().Cookies()) != 0 {
		t.Error("a theme that does not exist is kept")
	}
}

// All files of a page are there, and browsers may keep them.
func TestAssets(t *testing.T) {
	c, _ := newTestConsole(t, Options{Token: "s3cret"})
	for name := range assets {
		w := request{path: assetPath(Prefix, name)}.to(c)
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	page := request{path: "/ui/login"}.to(c).Body.String()
	for _, path := range regexp.MustCompile(`/ui/static/[^"]+`).FindAllString(page, -1) {
		if w := (request{path: path}).to(c); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := (request{path: "/ui/static/old/console.css"}).to(c); w.Code != 404 {
		t.Errorf("another version: %d", w.Code)
	}
}
