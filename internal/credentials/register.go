package credentials

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mcpgateway/internal/oauthmeta"
)

// clientName is the gateway's name on the pages of authorization servers.
const clientName = "MCP gateway"

// registration is the gateway as a client that has registered itself at an authorization
// server.
type registration struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret,omitempty"`
	Method  string    `json:"method,omitempty"` // of authentication
	Expires time.Time `json:"expires,omitzero"` // of the secret
	Made    time.Time `json:"made,omitzero"`    // zero: by a version before this one
}

// clientAuth returns how the client authenticates, and the method that it is registered
// for.
func (r registration) clientAuth() (*clientAuth, []string) {
	return &clientAuth{id: r.ID, secret: r.Secret}, []string{r.Method}
}

// clientDocument returns the gateway's client metadata, whose URL is id (the draft "OAuth
// Client ID Metadata Document"). A registration request contains the same without id.
func clientDocument(id string, redirects ...string) map[string]any {
	kind := "web"
	if u, err := url.Parse(redirects[0]); err == nil && isLoopback(u.Hostname()) {
		kind = "native"
	}
	doc := map[string]any{
		"client_name": clientName, "redirect_uris": redirects, "application_type": kind,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": methodNone,
	}
	if id != "" {
		doc["client_id"] = id
	}
	return doc
}

func registrationName(issuer, redirect string) string {
	return strings.Join([]string{"client", issuer, redirect}, "\x00")
}

// forget removes a registration that an authorization server no longer knows, so that the
// next flow registers again. It does not remove a newer registration.
func (r registration) forget(ctx context.Context, st *Store, issuer, redirect string) {
	var kept registration
	name := registrationName(issuer, redirect)
	if there, err := st.load(ctx, name, &kept); err == nil && there && kept.ID == r.ID {
		_ = st.remove(ctx, name, nil)
	}
}

// clientsForgotten is the stored record of [Source.ForgetClient].
type clientsForgotten struct {
	At time.Time `json:"at"`
}

// forgottenName returns the name of the record for an upstream. The names of registrations do not say for which upstream
// they were made, and cannot be listed in the store that replicas share.
func (u *user) forgottenName() string {
	return strings.Join([]string{"clients-forgotten", u.o.Upstream, oauthmeta.CanonicalURI(u.o.URL)}, "\x00")
}

// ForgetClient makes the gateway, with all its replicas, register itself anew before the next grant for the upstream of s. An
// authorization server that has forgotten a client says so only to the browser. Grants keep the client that they were given
// to. It returns false if the gateway does not register itself.
func (s *Source) ForgetClient(ctx context.Context) (bool, error) {
	u, ok := s.tokens.(*user)
	if !ok || u.clientAuth != nil {
		return false, nil
	}
	return true, u.o.Store.save(ctx, u.forgottenName(), clientsForgotten{u.o.Now()})
}

// register returns the gateway's registration at an authorization server, and registers
// if necessary (RFC 7591): a registration that is older than forgotten is not used. A registration is never used at another server.
func register(ctx context.Context, g *guard, st *Store, s *authServer, redirect string, forgotten, now time.Time) (registration, error) {
	const what = "the registration endpoint"
	name := registrationName(s.Issuer, redirect)
	var r registration
	known, err := st.load(ctx, name, &r)
	if err != nil {
		return r, err
	}
	if known && !r.Made.Before(forgotten) && (r.Expires.IsZero() || now.Before(r.Expires)) {
		return r, nil
	}
	body, err := json.Marshal(clientDocument("", redirect))
	if err != nil {
		return r, failf("the gateway cannot register").because(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.register.String(), strings.NewReader(string(body)))
	if err != nil {
		return r, failf("%s has no URL", what).because(err)
	}
	req.Header.Set("Content-Type", "application/json")
	a, err := g.send(g.client(false), what, req)
	if err != nil {
		return r, err
	}
	switch a.Status {
	case http.StatusCreated, http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return r, unregistered(a.refusal("the registration endpoint of the authorization server").Error(), s, redirect)
	default:
		return r, a.refusal(what)
	}
	r = registration{Made: now, ID: a.Body.Get("client_id").Str(), Secret: a.Body.Get("client_secret").Str(), Method: a.Body.Get("token_endpoint_auth_method").Str()}
	if r.ID == "" || len(r.ID) > maxURL || len(r.Secret) > maxToken {
		return r, failf("%s returned no client_id", what)
	}
	if r.Secret != "" && r.Method == "" {
		r.Method = methodBasic // the default (RFC 7591, section 2)
	}
	if r.Method == methodNone {
		r.Secret = ""
	}
	if at, ok := a.Body.Get("client_secret_expires_at").Int(); ok && at > 0 && r.Secret != "" {
		r.Expires = time.Unix(at, 0)
	}
	return r, st.save(ctx, name, r)
}
