package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"mcpgateway/internal/call"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/wire"
)

// Issuer is an authorization server whose tokens are accepted.
type Issuer struct {
	URL string // compared exactly with iss (RFC 8414, section 2)
	// Audiences are the names of this gateway. The aud of a token must contain one of
	// them. The URL of an endpoint names that endpoint alone.
	Audiences []string
	// OwnURLs also accepts the public URL, for all endpoints, and the URL of each endpoint.
	OwnURLs    bool
	Algorithms []string      // nil: all of [Algorithms]
	Skew       time.Duration // the tolerated difference between the clocks
	Claims     ClaimPaths
	Required   []string // scopes that every token must have
	// ProfilesClaim is the path of the claim with the only profiles that the subject may
	// use, "" if they may use all. A token without it is refused.
	ProfilesClaim string
	// Discovery is the URL of its metadata, "" for the well-known URLs. Keys is the URL
	// of its keys, "" for the one in the metadata.
	Discovery, Keys string
}

// MethodToken is the AuthMethod of principals that authenticate with an access token.
const MethodToken = "jwt"

// algorithms are the asymmetric signature algorithms of RFC 7518 and RFC 8037. With a
// symmetric one, everyone who can verify tokens could sign them.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// issuer verifies the tokens of one authorization server.
type issuer struct {
	Issuer
	signatures []jose.SignatureAlgorithm // Issuer.Algorithms
	keys       *keySet
	hierarchy  hierarchy
	endpoints  func() *endpoint.Set
	base       string // the public URL with its scheme and host in lower case
	now        func() time.Time
}

// newIssuers returns the issuers by URL. client fetches their documents.
func (a *Authenticator) newIssuers(all []Issuer, client *http.Client) (map[string]*issuer, error) {
	out := make(map[string]*issuer)
	for _, o := range all {
		switch {
		case out[o.URL] != nil:
			return nil, fmt.Errorf("issuer %s is configured twice", o.URL)
		case len(o.Audiences) == 0 && !(o.OwnURLs && a.resource.publicURL != ""):
			return nil, fmt.Errorf("issuer %s: no audience is configured", o.URL)
		}
		if o.Algorithms == nil {
			o.Algorithms = algorithms
		}
		for _, alg := range o.Algorithms {
			if !slices.Contains(algorithms, alg) {
				return nil, fmt.Errorf("issuer %s: the algorithm %q is not one of %s", o.URL, alg, strings.Join(algorithms, ", "))
			}
		}
		for _, u := range []string{o.URL, o.Discovery, o.Keys} {
			if u != "" {
				if err := safeURL(u); err != nil {
					return nil, fmt.Errorf("issuer %s: %w", o.URL, err)
				}
			}
		}
		for path, usual := range map[*string]string{&o.Claims.Subject: "sub", &o.Claims.Groups: "groups", &o.Claims.Scopes: "scope"} {
			if *path == "" {
				*path = usual
			}
		}
		var signatures []jose.SignatureAlgorithm
		for _, alg := range o.Algorithms {
			signatures = append(signatures, jose.SignatureAlgorithm(alg))
		}
		d := discovery{issuer: o.URL, metadata: o.Discovery, keys: o.Keys, client: client}
		out[o.URL] = &issuer{
			Issuer: o, signatures: signatures, keys: newKeySet(d.find, client, a.now, a.metrics.issuerUp(o.URL)), hierarchy: a.hierarchy,
			endpoints: a.endpoints, base: a.resource.lowerURL, now: a.now,
		}
	}
	return out, nil
}

// verify verifies a token of this issuer (RFC 9068, section 4; RFC 8725).
func (i *issuer) verify(ctx context.Context, t *token) (*verified, *failure) {
	if !slices.Contains(i.Algorithms, t.alg) {
		return nil, errAlgorithm
	}
	payload, err := i.keys.verify(ctx, t.text, i.signatures)
	switch {
	case errors.Is(err, errUnreachable):
		return nil, errUnavailable
	case err != nil:
		return nil, errSignature
	}
	return i.judge(payload, t.text)
}

// judge judges the claims of a token whose signature is valid.
func (i *issuer) judge(payload []byte, text string) (*verified, *failure) {
	claims := wire.ValueOf(payload)
	if isNotAccessToken(claims) {
		return nil, errOtherToken
	}
	aud, ok := stringList(claims.Get("aud"), whole)
	v := &verified{}
	if ok {
		v.audience = i.audienceOf(aud)
	}
	if v.audience.isNowhere() {
		return nil, errAudience
	}
	expires, fail := i.checkTimes(claims)
	if fail != nil {
		return nil, fail
	}
	if v.certDigest, fail = bindingOf(claims); fail != nil {
		return nil, fail
	}
	if v.sender, fail = i.sender(claims, payload, expires); fail != nil {
		return nil, fail
	}
	v.sender.principal.Token = call.NewToken(strings.Clone(text)) // text keeps the whole head of a request
	for _, s := range i.Required {
		if !slices.Contains(v.sender.principal.Scopes, s) {
			return nil, errScope
		}
	}
	return v, nil
}

// lowerOrigin returns a URL with its scheme and host in lower case, and any other text
// unchanged.
func lowerOrigin(s string) string {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return s
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return strings.ToLower(scheme) + "://" + strings.ToLower(rest[:end]) + rest[end:]
}

// checkTimes returns the expiry of a token, with the tolerated skew. A token without an
// expiry is refused.
func (i *issuer) checkTimes(claims wire.Value) (time.Time, *failure) {
	exp, ok := numericDate(claims.Get("exp"))
	if !ok {
		return exp, malformed("exp")
	}
	now := i.now()
	exp = exp.Add(i.Skew)
	if !now.Before(exp) {
		return exp, errExpired
	}
	for _, name := range []string{"nbf", "iat"} {
		v := claims.Get(name)
		if !v.Exists() {
			continue
		}
		from, ok := numericDate(v)
		if !ok {
			return exp, malformed(name)
		}
		if now.Add(i.Skew).Before(from) {
			return exp, errNotYetValid
		}
	}
	return exp, nil
}

// bindingOf returns the digest of the certificate that a token is bound to, "" if it is
// not bound. A token with a binding of another type is refused, since a thief of the
// token could send it too (RFC 7800, section 3.1).
func bindingOf(claims wire.Value) (string, *failure) {
	cnf := claims.Get("cnf")
	if !cnf.Exists() {
		return "", nil
	}
	n := 0
	for range cnf.Members() {
		n++
	}
	digest := cnf.Get("x5t#S256").Str()
	if digest == "" || n != 1 {
		return "", errBinding
	}
	return digest, nil
}

// sender returns the principal that the claims describe, and the profiles that they may use.
func (i *issuer) sender(claims wire.Value, payload []byte, expires time.Time) (*Sender, *failure) {
	subject, ok := call.ClaimAt(claims, i.Claims.Subject).Text()
	if !ok || !isPrincipalText(subject) {
		return nil, malformed(i.Claims.Subject)
	}
	r, wrong := i.Rights(payload)
	if wrong != "" {
		return nil, malformed(wrong)
	}
	out := NewSender(&call.Principal{
		Subject: subject, Issuer: i.URL, Groups: r.Groups, Scopes: i.hierarchy.expand(r.Scopes),
		AuthMethod: MethodToken, Claims: wire.Raw(payload), Expires: expires,
	})
	out.Profiles = r.Profiles
	return out, nil
}

// Rights are what the claims of a token give its principal: groups, scopes without those that they imply, and the
// names of the only profiles that the principal may use, nil for all.
type Rights struct{ Groups, Scopes, Profiles []string }

// Rights reads the claims of a token of the issuer. wrong is the path of a claim that is missing or malformed, for
// which a token is refused, or "".
func (o *Issuer) Rights(payload wire.Raw) (r Rights, wrong string) {
	claims := wire.ValueOf(payload)
	var ok bool
	if r.Groups, ok = stringList(call.ClaimAt(claims, o.Claims.Groups), whole); !ok {
		return Rights{}, o.Claims.Groups
	}
	if r.Scopes, ok = stringList(call.ClaimAt(claims, o.Claims.Scopes), strings.Fields); !ok {
		return Rights{}, o.Claims.Scopes
	}
	if o.ProfilesClaim == "" {
		return r, ""
	}
	// Without the claim it is not known what the subject may use.
	if r.Profiles, ok = stringList(call.ClaimAt(claims, o.ProfilesClaim), whole); !ok || len(r.Profiles) == 0 {
		return Rights{}, o.ProfilesClaim
	}
	return r, ""
}
