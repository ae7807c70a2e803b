package credentials

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientName is what users see of the gateway at authorization servers.
const clientName = "MCP gateway"

// registration is who the gateway is at one authorization server that it has not been
// configured for.
type registration struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret,omitempty"`
	Method  string    `json:"method,omitempty"` // of authentication
	Expires time.Time `json:"expires,omitzero"` // of the secret
}

// proof returns how the client proves itself, and by which method.
func (r registration) clientAuth() (*clientAuth, []string) {
	return &clientAuth{id: r.ID, secret: r.Secret}, []string{r.Method}
}

// clientDocument is the metadata of the gateway as a client, whose URL is id (the
// draft "OAuth Client ID Metadata Document"); registering sends the same without id.
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

// forget forgets a registration that an authorization server does not know any more, so
// that the next flow registers anew. Another that has taken its place stays.
func (r registration) forget(st *Store, issuer, redirect string) {
	var kept registration
	name := registrationName(issuer, redirect)
	if there, err := st.load(name, &kept); err == nil && there && kept.ID == r.ID {
		_ = st.remove(name)
	}
}

// registered returns who the gateway is at an authorization server, where it registers
// if it is not yet (RFC 7591). What one server gave is never used at another.
func register(ctx context.Context, g *guard, st *Store, s *authServer, redirect string, now time.Time) (registration, error) {
	const what = "the registration endpoint"
	name := registrationName(s.Issuer, redirect)
	var r registration
	known, err := st.load(name, &r)
	if err != nil {
		return r, err
	}
	if known && (r.Expires.IsZero() || now.Before(r.Expires)) {
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
	if a.Status != http.StatusCreated && a.Status != http.StatusOK {
		return r, a.refusal(what)
	}
	r = registration{ID: a.Body.Get("client_id").Str(), Secret: a.Body.Get("client_secret").Str(), Method: a.Body.Get("token_endpoint_auth_method").Str()}
	if r.ID == "" || len(r.ID) > maxURL || len(r.Secret) > maxToken {
		return r, failf("%s gave no client_id", what)
	}
	if r.Secret != "" && r.Method == "" {
		r.Method = methodBasic // RFC 7591, section 2
	}
	if r.Method == methodNone {
		r.Secret = ""
	}
	if at, ok := a.Body.Get("client_secret_expires_at").Int(); ok && at > 0 && r.Secret != "" {
		r.Expires = time.Unix(at, 0)
	}
	return r, st.save(name, r)
}
