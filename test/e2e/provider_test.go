package e2e

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// app is an application that is registered at a real OpenID provider.
type app struct {
	issuer, id, secret, redirect string
}

// register registers an application with a client secret.
func register(t *testing.T, issuer, redirect string) app {
	t.Helper()
	doc, err := json.Marshal(map[string]any{
		"client_name": "test", "redirect_uris": []string{redirect}, "grant_types": []string{"authorization_code"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "client_secret_basic", "application_type": "native",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	readJSON(t, postTo(t, issuer+"/reg", "application/json", string(doc), nil), http.StatusCreated, &got)
	return app{issuer, got.ID, got.Secret, redirect}
}

// tokens are the tokens of a user of the application.
type tokens struct {
	Access string `json:"access_token"`
	ID     string `json:"id_token"`
}

// tokens logs a user in. The user consents to scopes at a resource; "" for none.
func (a app) tokens(t *testing.T, user, resource, scope string) tokens {
	t.Helper()
	verifier := rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {a.redirect}, "scope": {scope}, "state": {rand.Text()},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	form := url.Values{"grant_type": {"authorization_code"}, "redirect_uri": {a.redirect}, "code_verifier": {verifier}}
	if resource != "" {
		q.Set("resource", resource)
		form.Set("resource", resource)
	}
	b := browserOf(t, user, a.issuer)
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), a.redirect) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	resp, err := b.Get(a.issuer + "/auth?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil || back.Query().Get("code") == "" {
		t.Fatalf("the provider answered %s %v, %v", resp.Status, back, err)
	}
	form.Set("code", back.Query().Get("code"))
	var got tokens
	readJSON(t, postTo(t, a.issuer+"/token", "application/x-www-form-urlencoded", form.Encode(), func(r *http.Request) {
		r.SetBasicAuth(url.QueryEscape(a.id), url.QueryEscape(a.secret))
	}), http.StatusOK, &got)
	return got
}

// browserOf returns the browser of a user, with its own cookies, who logs in at a provider.
func browserOf(t *testing.T, user, issuer string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	connections := &http.Transport{DisableKeepAlives: true}
	return &http.Client{Jar: jar, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > 30 { // a login and a consent take several redirects each
			return errors.New("too many redirects")
		}
		return nil
	}, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.String(), issuer+"/auth?") {
			r = r.Clone(r.Context())
			q := r.URL.Query()
			q.Set("login_hint", user) // the provider accepts the hint as a login
			r.URL.RawQuery = q.Encode()
		}
		return connections.RoundTrip(r)
	})}
}

func postTo(t *testing.T, to, kind, body string, change func(*http.Request)) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", kind)
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func readJSON(t *testing.T, resp *http.Response, status int, into any) {
	t.Helper()
	defer resp.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil || resp.StatusCode != status {
		t.Fatalf("%s: %s %s, %v", resp.Request.URL.Path, resp.Status, raw, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}
