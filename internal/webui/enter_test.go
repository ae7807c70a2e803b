package webui

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// The login page leads to the issuers of the configuration alone, and not as often as somebody likes.
func TestLoginAtIssuer(t *testing.T) {
	c, of := newPublicConsole(t, true)
	form := request{path: "/me/login?next=" + url.QueryEscape("/ui/calls?q=x")}.to(c).Body.String()
	at := "/me/login/issuer?issuer=https%3A%2F%2Fidp.example%2Ft1&amp;next=%2Fui%2Fcalls%3Fq%3Dx"
	if !strings.Contains(form, at) || !strings.Contains(form, "Log in at idp.example/t1") {
		t.Errorf("the page lacks the issuer: %s", form)
	}
	link := func(issuer, next string) string {
		return "/me/login/issuer?" + url.Values{"issuer": {issuer}, "next": {next}}.Encode()
	}
	for _, tt := range []struct {
		path, to string
		status   int
	}{
		{link("https://idp.example/t1", "/ui/calls?q=x"), "https://idp.example/t1/auth?next=%2Fui%2Fcalls%3Fq%3Dx", 302},
		{link("https://idp.example/t1", "https://evil.example/ui"), "https://idp.example/t1/auth?next=%2Fme", 302},
		{link("https://idp.example/t1", "//evil.example/ui"), "https://idp.example/t1/auth?next=%2Fme", 302},
		{link("https://evil.example", "/ui"), "", 404},
		{link("", ""), "", 404},
	} {
		w := request{path: tt.path}.to(c)
		if w.Code != tt.status || tt.to != "" && w.Header().Get("Location") != tt.to {
			t.Errorf("%s: %d %s", tt.path, w.Code, w.Header().Get("Location"))
		}
	}
	of.issuerDown = true
	if w := (request{path: link("https://idp.example/t1", "/ui")}).to(c); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the issuer does not answer") {
		t.Errorf("an issuer that is down: %d %s", w.Code, w.Body)
	}
	for range maxAttempts {
		request{path: link("https://idp.example/t1", "/ui")}.to(c)
	}
	if w := (request{path: link("https://idp.example/t1", "/ui")}).to(c); w.Code != http.StatusTooManyRequests {
		t.Errorf("after too many attempts: %d", w.Code)
	}
}

// A browser that comes back is logged in with a token that the gateway accepts, by a page that is no redirect. Nothing of
// its address is in the page.
func TestEnter(t *testing.T) {
	c, of := newPublicConsole(t, true)
	enter := func(next, token string, err error) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "https://gateway.example/oauth/login?code=the-code&state=the-state", nil)
		c.Enter(w, r, next, token, err)
		if strings.Contains(w.Body.String(), "the-") || w.Header().Get("Content-Security-Policy") != contentPolicy {
			t.Errorf("the page has the code, or lacks its policy: %v %s", w.Header(), w.Body)
		}
		return w
	}
	w := enter("/ui/calls", "key-of-ann", nil)
	if cookies := w.Result().Cookies(); w.Code != 200 || w.Header().Get("Refresh") != "0; url=/ui/calls" || len(cookies) != 1 || cookies[0].SameSite != http.SameSiteStrictMode || !cookies[0].Secure {
		t.Errorf("accepted: %d %v", w.Code, w.Header())
	}
	if len(of.logins) != 1 || of.logins[0] != "ann" {
		t.Errorf("logins: %v", of.logins)
	}
	for _, tt := range []struct {
		token string
		err   error
		want  string
	}{
		{"key-of-eve", nil, "not here. The gateway refuses this: the API key is unknown"},
		{"", errors.New("the issuer says <b>no</b>"), "the issuer says &lt;b&gt;no&lt;/b&gt;"},
	} {
		w := enter("/ui", tt.token, tt.err)
		if w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 || w.Header().Get("Refresh") != "" || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%q: %d %v %s", tt.want, w.Code, w.Header(), w.Body)
		}
	}
	if w := enter("https://evil.example", "key-of-bob", nil); w.Header().Get("Refresh") != "0; url=/me" {
		t.Errorf("it leads to %s", w.Header().Get("Refresh"))
	}
}
