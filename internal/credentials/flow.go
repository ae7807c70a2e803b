package credentials

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/plaintext"
)

// flow is one run of the authorization code grant with PKCE (2026-07-28,
// basic/authorization, "Authorization Flow Steps"). It is immutable and accepts one
// authorization response.
type flow struct {
	server   *authServer
	endpoint *tokenEndpoint
	client   registration
	redirect string
	state    string
	verifier string
	params   tokenParams
}

func newFlow(s *authServer, e *tokenEndpoint, c registration, redirect string, a tokenParams) (*flow, error) {
	if s.authorize == nil {
		return nil, failf("the authorization server has no authorization endpoint")
	}
	return &flow{s, e, c, redirect, rand.Text(), oauth2.GenerateVerifier(), a}, nil
}

// url returns the URL of the authorization request, with additional parameters.
func (f *flow) url(more ...string) string {
	u := *f.server.authorize
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.client.ID, "redirect_uri": f.redirect, "state": f.state,
		"code_challenge": oauth2.S256ChallengeFromVerifier(f.verifier), "code_challenge_method": "S256",
		"scope": strings.Join(f.params.scopes, " "), "resource": f.params.resource,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// redeem handles the authorization response, and exchanges its code for a token. It
// compares the issuer before it reads anything else (2026-07-28, basic/authorization,
// "Authorization Response Validation").
func (f *flow) redeem(ctx context.Context, answer url.Values) (*token, error) {
	if len(answer["state"]) != 1 || subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(f.state)) != 1 {
		return nil, failf("the response of the authorization server belongs to another request")
	}
	iss, named := answer["iss"]
	switch {
	case len(iss) > 1 || named && iss[0] != f.server.Issuer:
		return nil, failf("the response is from another authorization server")
	case f.server.IssParameter && !named:
		return nil, failf("the response does not name its authorization server, although the metadata says that it does")
	}
	if code := codeOf(answer); code != "" {
		e := failf("the authorization server refused the grant (%s)", code)
		e.code = code
		e.described = plaintext.Line(answer.Get("error_description"), maxDescription)
		return nil, e
	}
	if len(answer["code"]) != 1 || answer.Get("code") == "" || len(answer.Get("code")) > maxToken {
		return nil, failf("the response of the authorization server has no code")
	}
	form := tokenParams{resource: f.params.resource}.form("authorization_code")
	form.Set("code", answer.Get("code"))
	form.Set("redirect_uri", f.redirect)
	form.Set("code_verifier", f.verifier)
	return f.endpoint.request(ctx, form)
}

// codeDenied is the error code of a user, or an authorization server, that refuses the grant (RFC 6749, section 4.1.2.1).
const codeDenied = "access_denied"

// maxDescription bounds the description of an error that [Login] shows.
const maxDescription = 300

// codeOf returns the error code of an authorization response, if it is a registered one:
// the text of the response must not reach the user.
func codeOf(answer url.Values) string {
	if !answer.Has("error") {
		return ""
	}
	for _, known := range []string{
		"invalid_request", "unauthorized_client", codeDenied, "unsupported_response_type", "invalid_scope", "server_error",
		"temporarily_unavailable", "invalid_target", "login_required", "interaction_required", "consent_required",
	} {
		if answer.Get("error") == known {
			return known
		}
	}
	return "unknown error"
}

// savedFlow is a flow as it is stored until the browser comes back, maybe to another replica.
type savedFlow struct {
	Server   *oauthmeta.Server `json:"server"`
	Client   registration      `json:"client"`
	Redirect string            `json:"redirect"`
	State    string            `json:"state"`
	Verifier string            `json:"verifier"`
	Scopes   []string          `json:"scopes,omitempty"`
	Resource string            `json:"resource,omitempty"`
}

func (f *flow) saved() savedFlow {
	return savedFlow{f.server.Server, f.client, f.redirect, f.state, f.verifier, f.params.scopes, f.params.resource}
}

// flow returns the flow with its token endpoint.
func (s savedFlow) flow(server *authServer, e *tokenEndpoint) *flow {
	return &flow{server, e, s.Client, s.Redirect, s.State, s.Verifier, tokenParams{scopes: s.Scopes, resource: s.Resource}}
}

// resume returns a flow that was stored.
func (u *user) resume(s savedFlow) (*flow, error) {
	server, err := u.guard.checkServer(s.Server)
	if err != nil {
		return nil, err
	}
	return s.flow(server, u.endpoint(server, s.Client)), nil
}

// demanded returns the scopes that the server requires beyond the grant of a principal.
func (u *user) demanded(key string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.demands[key].scopes
}

// begin begins a flow in which a principal gives a grant for the upstream, with more scopes than usual. document is
// the URL of the gateway's client metadata, "" for none.
func (u *user) begin(ctx context.Context, key, redirect, document string, more ...string) (*flow, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	more = union(u.demanded(key), more)
	// The user must not consent for nothing.
	if err := u.o.Store.takes(ctx, u.storeName(key)); err != nil {
		return nil, err
	}
	a, issuer, assumed, err := u.requested(ctx)
	if err != nil {
		return nil, err
	}
	s, err := u.guard.findServer(ctx, issuer)
	if missing, ok := errors.AsType[*undescribed](err); ok && assumed {
		e := failf("the server names no authorization server, and has no metadata of one itself (HTTP %d)", missing.status)
		e.unnamed = true
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	if !s.PKCE {
		return nil, failf("the authorization server does not offer PKCE with S256, which the authorization code needs")
	}
	a.scopes = union(a.scopes, more)
	if slices.Contains(s.Scopes, "offline_access") {
		a.scopes = union(a.scopes, []string{"offline_access"})
	}
	c, err := u.client(ctx, s, redirect, document)
	if err != nil {
		return nil, err
	}
	return newFlow(s, u.endpoint(s, c), c, redirect, a)
}

// requested returns the parameters of an authorization request and the issuer that it goes to.
// The server names what the configuration does not say: in its challenge, or else in its
// metadata. A server whose authorization server is configured may have neither; else the server itself is assumed
// to be the issuer.
func (u *user) requested(ctx context.Context) (a tokenParams, issuer string, assumed bool, err error) {
	a, issuer = u.params, u.o.Authority.Issuer
	if issuer != "" && len(a.scopes) > 0 {
		return a, issuer, false, nil
	}
	u.mu.Lock()
	seen := u.lastChallenge
	u.mu.Unlock()
	if seen.Metadata == "" {
		seen = u.fetchChallenge(ctx)
	}
	if len(a.scopes) == 0 {
		a.scopes = seen.Scopes
	}
	if issuer != "" && len(a.scopes) > 0 {
		return a, issuer, false, nil
	}
	r, err := u.guard.findResource(ctx, u.o.URL, seen)
	switch {
	case err != nil && issuer != "" && ctx.Err() == nil:
		return a, issuer, false, nil
	case err != nil:
		return a, "", false, err
	}
	if len(a.scopes) == 0 {
		a.scopes = r.Scopes
	}
	if issuer == "" {
		issuer, assumed = r.Servers[0], r.Assumed
		if !u.resourceConfigured {
			a.resource = r.Resource
		}
	}
	return a, issuer, assumed, nil
}

// client returns the gateway's registration at an authorization server (2026-07-28,
// basic/authorization/client-registration).
func (u *user) client(ctx context.Context, s *authServer, redirect, document string) (registration, error) {
	switch {
	case u.clientAuth != nil:
		return registration{ID: u.clientAuth.id}, nil
	case s.ClientIDDocuments && document != "":
		return registration{ID: document, Method: methodNone}, nil
	case s.register != nil:
		var forgotten clientsForgotten
		if _, err := u.o.Store.load(ctx, u.forgottenName(), &forgotten); err != nil {
			return registration{}, err
		}
		return register(ctx, u.guard, u.o.Store, s, redirect, forgotten.At, u.o.Now())
	}
	return registration{}, unregistered("the authorization server does not support dynamic client registration", s, redirect)
}

// unregistered is the error if the gateway cannot register itself at an authorization server.
func unregistered(why string, s *authServer, redirect string) *Error {
	port := ""
	if u, err := url.Parse(redirect); err == nil && u.Path == loginPath { // the next login would have another port
		port = ", then log in with --port " + u.Port()
	}
	return failf("%s: register the gateway there with the redirect URI %s, and set client_id and issuer under auth of the upstream%s", why, redirect, port).
		because(failf("the issuer is %.200q", s.Issuer))
}

// fetchChallenge returns the challenge of the server for a request without a token.
func (u *user) fetchChallenge(ctx context.Context) oauthmeta.Challenge {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.o.URL.String(), nil)
	if err != nil {
		return oauthmeta.Challenge{}
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := u.guard.client(false).Do(req)
	if err != nil {
		return oauthmeta.Challenge{}
	}
	defer resp.Body.Close()
	return oauthmeta.ReadChallenge(resp.Header)
}

// finish handles the authorization response and stores the grant.
func (u *user) finish(ctx context.Context, key string, f *flow, answer url.Values) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	t, err := f.redeem(ctx, answer)
	if err != nil {
		if e, ok := err.(*Error); ok && e.code == "invalid_client" && u.clientAuth == nil {
			f.client.forget(ctx, u.o.Store, f.server.Issuer, f.redirect)
		}
		return err
	}
	g := grant{Issuer: f.server.Issuer, Resource: f.params.resource, Client: f.client, Redirect: f.redirect, Scopes: f.params.scopes, Asked: f.params.scopes, Given: u.o.Now()}.renewed(t)
	name := u.storeName(key)
	unlock, err := u.o.Store.lock(ctx, name) // so that the renewal of an older grant does not overwrite this one
	if err != nil {
		return err
	}
	err = u.save(ctx, key, g)
	unlock()
	if err != nil {
		return err
	}
	u.forget(key)
	u.o.Store.changed(ctx, name)
	return nil
}

// flowTime is how long a user may take to log in and to consent.
const flowTime = 10 * time.Minute
