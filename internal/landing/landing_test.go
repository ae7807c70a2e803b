package landing

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpgateway/internal/hostconfig"
)

func serve(url string, c Credentials) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Page(w, httptest.NewRequest(http.MethodGet, "/", nil), url, c)
	return w
}

func TestPage(t *testing.T) {
	const url = "https://mcp.example.com/mcp"
	w := serve(url, Credentials{})
	body := w.Body.String()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, h := range hostconfig.Hosts() {
		if !strings.Contains(body, h.Title) {
			t.Errorf("%s is not on the page", h.Title)
		}
	}
	for _, want := range []string{
		`&#34;type&#34;: &#34;http&#34;`, `&#34;serverUrl&#34;: &#34;` + url, `[mcp_servers.gateway]`, "gateway connect HOST --http " + url, "<p>In <code>~/.cursor/mcp.json</code>:</p>",
		"<p>In <code>~/.config/zed/settings.json</code>, on Windows <code>%APPDATA%\\Zed\\settings.json</code>:</p>",
		"<p>In <code>~/.config/Code/User/mcp.json</code>, on macOS <code>~/Library/Application Support/Code/User/mcp.json</code>, on Windows <code>%APPDATA%\\Code\\User\\mcp.json</code>:</p>",
		"<code>gateway connect claude-desktop</code>",
		"color-scheme: light dark",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s:\n%s", want, body)
		}
	}
	if strings.Contains(body, "credentials") {
		t.Error("the page asks for credentials that nobody needs")
	}
	const oauth, header, codex = "support OAuth", `&#34;headers&#34;: {&#34;Authorization&#34;: &#34;Bearer KEY&#34;}`, `http_headers = { Authorization = &#34;Bearer KEY&#34; }`
	for _, tt := range []struct {
		c        Credentials
		has, not []string
	}{
		{Credentials{}, nil, []string{oauth, "KEY"}},
		{Credentials{Keys: true}, []string{header, codex}, []string{oauth}},
		{Credentials{Tokens: true}, []string{oauth, "Authorization: Bearer KEY"}, []string{header, codex}},
		{Credentials{Keys: true, Tokens: true}, []string{oauth, header, codex}, nil},
	} {
		body := serve(url, tt.c).Body.String()
		for _, text := range tt.has {
			if !strings.Contains(body, text) {
				t.Errorf("%+v: the page lacks %s:\n%s", tt.c, text, body)
			}
		}
		for _, text := range tt.not {
			if strings.Contains(body, text) {
				t.Errorf("%+v: the page has %s:\n%s", tt.c, text, body)
			}
		}
	}
}

// The page loads nothing, runs nothing, and its policy allows its own style alone.
func TestPageIsSelfContained(t *testing.T) {
	w := serve("http://127.0.0.1:8080/mcp", Credentials{Keys: true, Tokens: true})
	body := strings.ToLower(w.Body.String())
	for _, bad := range []string{"<script", "<img", "<link", "<iframe", " src=", "javascript:", " on", "@import", "url("} {
		if i := strings.Index(body, bad); i >= 0 && bad != " on" || strings.Contains(body, " onclick") || strings.Contains(body, " onload") {
			t.Errorf("the page contains %s", bad)
		}
	}
	got := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(got, "default-src 'none'; style-src 'sha256-") || strings.Contains(got, "unsafe") || !strings.Contains(got, "frame-ancestors 'none'") {
		t.Errorf("policy %s", got)
	}
	if _, rest, ok := strings.Cut(w.Body.String(), "<style>"); !ok || !strings.HasPrefix(rest, style+"</style>") {
		t.Error("the style is not the one that the policy allows")
	}
}

func TestPageEscapes(t *testing.T) {
	const hostile = `http://a"><script>alert(1)</script>'&<b>/mcp`
	body := serve(hostile, Credentials{Keys: true, Tokens: true}).Body.String()
	if strings.Contains(body, "<script>") || strings.Contains(body, "<b>") || strings.Contains(body, `a">`) {
		t.Errorf("the URL is not escaped:\n%s", body)
	}
}

func TestIsFor(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, tt := range []struct {
		method, accept, session string
		want                    bool
	}{
		{"GET", browser, "", true},
		{"HEAD", browser, "", true},
		{"GET", "TEXT/HTML", "", true},
		{"POST", browser, "", false},
		{"DELETE", browser, "", false},
		{"GET", "text/event-stream", "", false},
		{"GET", "text/html, text/event-stream", "", false},
		{"GET", "*/*", "", false},
		{"GET", "", "", false},
		{"GET", browser, "s", false},
	} {
		r := httptest.NewRequest(tt.method, "/mcp", nil)
		r.Header.Set("Accept", tt.accept)
		if tt.session != "" {
			r.Header.Set("Mcp-Session-Id", tt.session)
		}
		if got := IsFor(r); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

func TestHeadHasNoBody(t *testing.T) {
	w := httptest.NewRecorder()
	Page(w, httptest.NewRequest(http.MethodHead, "/", nil), "http://a/mcp", Credentials{})
	if w.Body.Len() > 0 || w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%d bytes, %v", w.Body.Len(), w.Header())
	}
}
