package gatewaytest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The grants that an AuthServer supports.
const (
	GrantClient   = "client_credentials"
	GrantCode     = "authorization_code"
	GrantRefresh  = "refresh_token"
	GrantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	GrantJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	TokenTypeJAG  = "urn:ietf:params:oauth:token-type:id-jag"
)

// AuthServer is an [Issuer] that also issues tokens, by the grants above, to authenticated
// clients. Every browser at /authorize is logged in as the user of SetUser and consents.
// The methods may be called concurrently.
type AuthServer struct {
	*Issuer

	mu      sync.Mutex
	secrets map[string]string // of clients; "" for public ones
	user    string
	life    time.Duration
	codes   map[string]code
	refresh map[string]code
	posts   []url.Values // requests to the token endpoint
	fail    string       // error code of every answer of the token endpoint
	iss     string       // in authorization responses; "" for the real issuer, "-" for none
	id      map[string]any
}

// code is an authorization code or a refresh token.
type code struct {
	client, redirect, challenge, nonce, user, resource, scope string
}

// NewAuthServer starts an authorization server that ends with the test. clients are ids
// with secrets, "" for public clients.
func NewAuthServer(t testing.TB, clients map[string]string) *AuthServer {
	t.Helper()
	s := &AuthServer{secrets: maps.Clone(clients), user: "ann", life: 5 * time.Minute, codes: map[string]code{}, refresh: map[string]code{}}
	if s.secrets == nil {
		s.secrets = map[string]string{}
	}
	s.Issuer = NewIssuer(t, func(i *Issuer) {
		i.more = map[string]http.HandlerFunc{"/token": s.token, "/authorize": s.authorize, "/register": s.register, "/revoke": s.revoke}
		i.metadata = map[string]any{
			"token_endpoint": "/token", "authorization_endpoint": "/authorize", "registration_endpoint": "/register", "revocation_endpoint": "/revoke",
			"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"},
			"authorization_response_iss_parameter_supported": true,
			"token_endpoint_auth_methods_supported":          []string{"client_secret_basic", "client_secret_post", "private_key_jwt", "none"},
			"scopes_supported":                               []string{"offline_access"},
		}
	})
	return s
}

// SetMetadata changes a member of the metadata; nil removes it. A path becomes a URL.
func (s *AuthServer) SetMetadata(name string, v any) {
	s.Issuer.mu.Lock()
	defer s.Issuer.mu.Unlock()
	next := maps.Clone(s.metadata)
	next[name] = v
	if v == nil {
		delete(next, name)
	}
	s.metadata = next
}

// SetUser sets the user that is logged in.
func (s *AuthServer) SetUser(name string) { s.set(func() { s.user = name }) }

// SetLifetime sets the lifetime of tokens.
func (s *AuthServer) SetLifetime(d time.Duration) { s.set(func() { s.life = d }) }

// SetFail makes the token endpoint answer 400 with an error code; "" makes it work again.
func (s *AuthServer) SetFail(code string) { s.set(func() { s.fail = code }) }

// SetIss sets iss in authorization responses: "" for the real issuer, "-" for none.
func (s *AuthServer) SetIss(iss string) { s.set(func() { s.iss = iss }) }

// SetID replaces claims of ID tokens; a nil value removes one.
func (s *AuthServer) SetID(other map[string]any) { s.set(func() { s.id = other }) }

// RevokeRefreshTokens makes every refresh token invalid.
func (s *AuthServer) RevokeRefreshTokens() { s.set(func() { clear(s.refresh) }) }

// RemoveClients removes all registered clients.
func (s *AuthServer) RemoveClients() { s.set(func() { clear(s.secrets) }) }

func (s *AuthServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// TokenRequests returns the requests to the token endpoint for a grant, in order.
func (s *AuthServer) TokenRequests(grant string) []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.posts), func(v url.Values) bool { return v.Get("grant_type") != grant })
}

// TokenSubject returns the subject and the scopes of a token that this server issued for a
// resource. It does not verify the signature.
func (s *AuthServer) TokenSubject(token, resource string) (subject string, scopes []string, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Iss, Aud, Sub, Scope string
		Exp                  int64
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Iss != s.URL || claims.Aud != resource || claims.Exp <= time.Now().Unix() {
		return "", nil, false
	}
	return claims.Sub, strings.Fields(claims.Scope), true
}

func (s *AuthServer) register(w http.ResponseWriter, r *http.Request) {
	var doc struct {
		Redirects []string `json:"redirect_uris"`
	}
	if json.NewDecoder(r.Body).Decode(&doc) != nil || len(doc.Redirects) != 1 {
		s.refuse(w, "invalid_client_metadata")
		return
	}
	id := "registered-" + rand.Text()
	s.set(func() { s.secrets[id] = "" })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	s.write(w, map[string]any{"client_id": id, "token_endpoint_auth_method": "none", "redirect_uris": doc.Redirects})
}

func (s *AuthServer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	_, known := s.secrets[q.Get("client_id")]
	c := code{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("nonce"), s.user, q.Get("resource"), q.Get("scope")}
	iss, id := s.iss, rand.Text()
	s.codes[id] = c
	s.mu.Unlock()
	back, err := url.Parse(c.redirect)
	if !known || err != nil || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "a request that is not right", http.StatusBadRequest)
		return
	}
	answer := url.Values{"code": {id}, "state": {q.Get("state")}, "iss": {s.URL}}
	switch iss {
	case "":
	case "-":
		answer.Del("iss")
	default:
		answer.Set("iss", iss)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (s *AuthServer) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		s.refuse(w, "invalid_request")
		return
	}
	form := r.PostForm
	client, ok := s.client(r)
	s.mu.Lock()
	s.posts = append(s.posts, form)
	fail := s.fail
	s.mu.Unlock()
	switch {
	case fail != "":
		s.refuse(w, fail)
	case !ok:
		s.refuse(w, "invalid_client")
	default:
		s.grant(w, form, client)
	}
}

// revoke revokes a refresh token of the client that asks (RFC 7009).
func (s *AuthServer) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost {
		s.refuse(w, "invalid_request")
		return
	}
	client, ok := s.client(r)
	if !ok {
		s.refuse(w, "invalid_client")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if token := r.PostForm.Get("token"); s.refresh[token].client == client {
		delete(s.refresh, token)
	}
	w.WriteHeader(http.StatusOK)
}

// RefreshTokens returns how many refresh tokens are valid.
func (s *AuthServer) RefreshTokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refresh)
}

// client returns the client of a request, and whether it is authenticated. Assertions are
// not verified: the tests inspect them.
func (s *AuthServer) client(r *http.Request) (string, bool) {
	id, secret, basic := r.BasicAuth()
	if basic {
		var err1, err2 error
		id, err1 = url.QueryUnescape(id) // RFC 6749, section 2.3.1
		secret, err2 = url.QueryUnescape(secret)
		if err1 != nil || err2 != nil {
			return "", false
		}
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	want, known := s.secrets[id]
	return id, known && (secret == want || r.PostForm.Get("client_assertion") != "")
}

func (s *AuthServer) grant(w http.ResponseWriter, form url.Values, client string) {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	out := map[string]any{"token_type": "Bearer", "expires_in": int(life.Seconds())}
	subject, scope, resource := client, form.Get("scope"), form.Get("resource")
	if resource == "" {
		resource = form.Get("audience")
	}
	switch form.Get("grant_type") {
	case GrantClient:
	case GrantExchange:
		subject = subjectOf(form.Get("subject_token"))
		out["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
		if form.Get("requested_token_type") == TokenTypeJAG {
			out["issued_token_type"], out["token_type"] = TokenTypeJAG, "N_A"
			resource = form.Get("audience")
		}
	case GrantJWT:
		subject = subjectOf(form.Get("assertion"))
	case GrantCode, GrantRefresh:
		c, ok := s.redeem(form, client)
		if !ok {
			s.refuse(w, "invalid_grant")
			return
		}
		subject, scope, resource = c.user, c.scope, c.resource
		if slices.Contains(strings.Fields(scope), "offline_access") {
			next := rand.Text()
			s.set(func() { s.refresh[next] = c })
			out["refresh_token"] = next
		}
		if slices.Contains(strings.Fields(scope), "openid") {
			claims := map[string]any{"sub": c.user, "nonce": c.nonce}
			s.set(func() { maps.Copy(claims, s.id) })
			out["id_token"] = s.Sign(nil, s.Claims(client, claims))
		}
	default:
		s.refuse(w, "unsupported_grant_type")
		return
	}
	if subject == "" {
		s.refuse(w, "invalid_grant")
		return
	}
	out["access_token"] = s.Token(resource, map[string]any{"sub": subject, "scope": scope, "exp": time.Now().Add(life).Unix(), "jti": rand.Text()})
	w.Header().Set("Content-Type", "application/json")
	s.write(w, out)
}

// redeem consumes a code or a refresh token.
func (s *AuthServer) redeem(form url.Values, client string) (code, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if form.Get("grant_type") == GrantRefresh {
		c, ok := s.refresh[form.Get("refresh_token")]
		delete(s.refresh, form.Get("refresh_token"))
		return c, ok && c.client == client
	}
	c, ok := s.codes[form.Get("code")]
	delete(s.codes, form.Get("code"))
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	return c, ok && c.client == client && c.redirect == form.Get("redirect_uri") && c.resource == form.Get("resource") &&
		c.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
}

func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Sub string }
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Sub
}

func (s *AuthServer) refuse(w http.ResponseWriter, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	s.write(w, map[string]any{"error": code, "error_description": "the request was refused, and this text repeats a secret: s3cret"})
}

func (s *AuthServer) write(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Error(err)
	}
}
