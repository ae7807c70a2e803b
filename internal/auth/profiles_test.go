package auth

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/oauthmeta"
)

func profiles() *endpoint.Set {
	return endpoint.New([]endpoint.Profile{{Name: "coding", Hosts: []string{"coding.example.com"}}, {Name: "ops"}})
}

// at returns a request with a token to a URL.
func at(url, token string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, url, nil)
	r.URL.Scheme, r.URL.Host = "", "" // as on the server side
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// A token for the endpoint of one profile is refused at another, however often it is sent.
func TestAudiencesOfProfiles(t *testing.T) {
	const base = "https://gw.example.com"
	iss := gatewaytest.NewIssuer(t)
	own := forTokens(t, iss, func(o *Options) {
		o.PublicURL, o.Endpoints = "https://GW.example.com", profiles
		o.Issuers[0].Audiences, o.Issuers[0].OwnURLs = nil, true
	})
	listed := forTokens(t, iss, func(o *Options) {
		o.Endpoints = profiles
		o.Issuers[0].Audiences = []string{"api", "http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080/mcp/coding"}
	})
	everywhere := []string{base + "/mcp", base + "/sse", base + "/mcp/default", base + "/mcp/coding", base + "/mcp/ops", "https://coding.example.com/mcp"}
	for _, tt := range []struct {
		auth     *Authenticator
		audience any
		at       []string
	}{
		{own, base, everywhere},
		{own, base + "/", everywhere},
		{own, "https://GW.EXAMPLE.com", everywhere},
		{own, base + "/mcp", []string{base + "/mcp", base + "/sse", base + "/mcp/default"}},
		{own, base + "/sse", []string{base + "/mcp", base + "/sse", base + "/mcp/default"}},
		{own, base + "/mcp/coding", []string{base + "/mcp/coding", "https://coding.example.com/mcp"}},
		{own, "https://coding.example.com/mcp", []string{base + "/mcp/coding", "https://coding.example.com/mcp"}},
		{own, []string{"x", base + "/mcp/coding", base + "/mcp/ops"}, []string{base + "/mcp/coding", base + "/mcp/ops", "https://coding.example.com/mcp"}},
		{own, base + "/mcp/none", nil},
		{own, base + "/mcp/coding/", nil},
		{own, "https://evil.example/mcp/coding", nil},
		{listed, "api", everywhere},
		{listed, "http://127.0.0.1:8080/mcp", []string{base + "/mcp", base + "/sse", base + "/mcp/default"}},
		{listed, "http://127.0.0.1:8080/mcp/coding", []string{base + "/mcp/coding", "https://coding.example.com/mcp"}},
		{listed, "http://127.0.0.1:8080/mcp/ops", nil},
	} {
		token := iss.Sign(claimSet{}, iss.Claims("", claimSet{"aud": tt.audience}))
		for range 2 { // the second time the token is known
			for _, url := range everywhere {
				_, err := authenticate(tt.auth, at(url, token))
				if want := slices.Contains(tt.at, url); (err == nil) != want {
					t.Errorf("a token for %v at %s: %v", tt.audience, url, err)
				} else if err != nil {
					refused(t, tt.auth, at(url, token), "audience")
				}
			}
		}
	}
}

// The log and explain say which audience the endpoint expects.
func TestExpectedAudiences(t *testing.T) {
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss, func(o *Options) {
		o.PublicURL, o.Endpoints = "https://gw.example.com", profiles
		o.Issuers[0].Audiences, o.Issuers[0].OwnURLs = nil, true
	})
	token := iss.Token("https://gw.example.com/mcp", nil)
	for profile, want := range map[string]CheckResult{"": CheckOK, "coding": CheckWrong} {
		x := a.Examine(t.Context(), token, profile)
		i := slices.IndexFunc(x.Checks, func(c Check) bool { return c.Name == "aud" })
		if got := x.Checks[i]; got.Result != want || !strings.HasSuffix(got.Expected, "https://gw.example.com"+endpoint.PathOf(profile)) {
			t.Errorf("profile %q: %+v", profile, got)
		}
		if (x.Reason == "") != (want == CheckOK) {
			t.Errorf("profile %q: reason %q", profile, x.Reason)
		}
	}
	expected := a.expectedAudiences(a.issuers[iss.URL], at("http://coding.example.com/mcp", token))
	if !slices.Contains(expected, "https://coding.example.com/mcp") {
		t.Errorf("expected %q", expected)
	}
}

// Each endpoint has metadata of its own, and its challenges name them. The Host of a profile
// stands for that of the public URL; any other Host does not.
func TestMetadataOfProfiles(t *testing.T) {
	a := newAuth(t, Options{
		Issuers: []Issuer{{URL: "https://idp.example.com", OwnURLs: true}}, PublicURL: "https://gw.example.com/a", Endpoints: profiles,
	})
	for _, tt := range []struct{ host, path, resource, metadata string }{
		{"gw.example.com", "/mcp", "https://gw.example.com/a/mcp", "https://gw.example.com" + oauthmeta.ResourcePath + "/a/mcp"},
		{"gw.example.com", "/mcp/default", "https://gw.example.com/a/mcp/default", "https://gw.example.com" + oauthmeta.ResourcePath + "/a/mcp/default"},
		{"gw.example.com", "/mcp/coding", "https://gw.example.com/a/mcp/coding", "https://gw.example.com" + oauthmeta.ResourcePath + "/a/mcp/coding"},
		{"10.0.0.1", "/mcp/ops", "https://gw.example.com/a/mcp/ops", "https://gw.example.com" + oauthmeta.ResourcePath + "/a/mcp/ops"},
		{"evil.example", "/mcp/ops", "https://gw.example.com/a/mcp/ops", "https://gw.example.com" + oauthmeta.ResourcePath + "/a/mcp/ops"},
		{"coding.example.com", "/mcp", "https://coding.example.com/a/mcp", "https://coding.example.com" + oauthmeta.ResourcePath + "/a/mcp"},
		{"coding.example.com:8443", "/sse", "https://coding.example.com:8443/a/sse", "https://coding.example.com:8443" + oauthmeta.ResourcePath + "/a/sse"},
	} {
		r := httptest.NewRequest(http.MethodPost, tt.path, nil)
		r.Host = tt.host
		want := `Bearer resource_metadata="` + tt.metadata + `"`
		if d := refused(t, a, r, "missing"); d.Challenge() != want {
			t.Errorf("%+v: challenge %s", tt, d.Challenge())
		}
		if got := a.ScopeChallenge(r, []string{"x"}); !strings.Contains(got, `resource_metadata="`+tt.metadata+`"`) {
			t.Errorf("%+v: challenge %s", tt, got)
		}
		for _, prefix := range []string{"", "/a"} {
			r = httptest.NewRequest(http.MethodGet, oauthmeta.ResourcePath+prefix+tt.path, nil)
			r.Host = tt.host
			w := httptest.NewRecorder()
			a.Metadata().ServeHTTP(w, r)
			if !strings.Contains(w.Body.String(), `"resource":"`+tt.resource+`"`) {
				t.Errorf("%+v: metadata %d %s", tt, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"/mcp/none", "/mcp/coding/", "/mcp//coding", "/mcp/%63oding", "/coding", "/sse/message", "/a/a/mcp"} {
		w := httptest.NewRecorder()
		a.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, oauthmeta.ResourcePath+path, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// The profiles of a principal come from its key or its token. A token without the claim is
// refused: nobody has said what its subject may use.
func TestPinnedProfiles(t *testing.T) {
	key, digest := NewKey()
	iss := gatewaytest.NewIssuer(t)
	a := forTokens(t, iss, func(o *Options) {
		o.Keys = []Key{{ID: "ci", SHA256: digest, Profiles: []string{"ops", "coding"}}}
		o.Issuers[0].ProfilesClaim = "mcp.profiles"
	})
	of := func(r *http.Request) []string {
		t.Helper()
		e, _ := a.endpoints().Find(r.URL, r.Host)
		sender, err := a.Authenticate(r, e)
		if err != nil {
			t.Fatal(err)
		}
		return sender.Profiles
	}
	if got := of(request("X-API-Key", key)); !slices.Equal(got, []string{"ops", "coding"}) {
		t.Errorf("key: %q", got)
	}
	for want, claim := range map[string]any{"ops": "ops", "ops coding": []string{"ops", "coding"}} {
		if got := of(withToken(iss.Token(audience, claimSet{"mcp": claimSet{"profiles": claim}}))); strings.Join(got, " ") != want {
			t.Errorf("token with %v: %q", claim, got)
		}
	}
	for _, claims := range []claimSet{nil, {"mcp": claimSet{"profiles": []string{}}}, {"mcp": claimSet{"profiles": 5}}, {"mcp": "profiles"}, {"mcp": claimSet{"profiles": []any{1}}}} {
		refused(t, a, withToken(iss.Token(audience, claims)), "claims")
	}
	changed, err := a.SetKeys([]Key{{ID: "ci", SHA256: digest, Profiles: []string{"ops"}}})
	if err != nil || len(changed.Changed) != 1 {
		t.Errorf("a key with other profiles has not changed: %v, %v", changed, err)
	}
	if got := of(request("X-API-Key", key)); !slices.Equal(got, []string{"ops"}) {
		t.Errorf("changed key: %q", got)
	}
}

// A principal in a profile costs nothing after the first request with its credentials.
func TestSenderAllocations(t *testing.T) {
	key, digest := NewKey()
	a := newAuth(t, Options{Keys: []Key{{ID: "ci", SHA256: digest}}})
	r := request("X-API-Key", key)
	e, _ := a.endpoints().Find(r.URL, r.Host)
	sender, err := a.Authenticate(r, e)
	if err != nil {
		t.Fatal(err)
	}
	ops, coding := sender.In("ops"), sender.In("coding")
	if ops.Profile != "ops" || coding.Profile != "coding" || sender.In("").Profile != "" || ops.Subject != "ci" {
		t.Errorf("%+v %+v", ops, coding)
	}
	if n := testing.AllocsPerRun(100, func() {
		again, err := a.Authenticate(r, e)
		if err != nil || again.In("coding") != coding || again.In("ops") != ops {
			t.Error("another principal")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
