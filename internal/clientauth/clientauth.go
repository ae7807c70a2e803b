package clientauth

import (
	"context"
	"errors"
	"reflect"

	"mcpgateway/internal/auth"
	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/ruleset"
)

// New returns the authenticator of a configuration, nil if no authentication is required.
// endpoints returns the endpoints that are in force.
func New(cfg *config.Config, m *auth.Metrics, endpoints func() *endpoint.Set) (*auth.Authenticator, error) {
	a := &cfg.Auth
	if a.Has(config.AuthNone) {
		return nil, nil
	}
	o := auth.Options{PublicURL: cfg.PublicURL, Endpoints: endpoints, Metrics: m}
	if a.Has(config.AuthKey) {
		o.Keys = keysOf(a)
	}
	if a.Has(config.AuthJWT) {
		for _, j := range a.JWT {
			o.Issuers = append(o.Issuers, issuerOf(j))
		}
	}
	if a.Has(config.AuthMTLS) {
		o.Certificates = certificatesOf(a)
	}
	o.Hierarchy = impliedScopes(cfg)
	return auth.New(o)
}

func issuerOf(j config.JWT) auth.Issuer {
	return auth.Issuer{
		URL: j.Issuer, Audiences: j.Audience, OwnURLs: len(j.Audience) == 0, Algorithms: j.Algorithms, Skew: j.Skew,
		Claims: auth.ClaimPaths(j.Claims), ProfilesClaim: j.ProfilesClaim, Required: j.Required, Discovery: j.Discovery, Keys: j.JWKS,
	}
}

func keysOf(a *config.Auth) (keys []auth.Key) {
	for _, k := range a.APIKeys {
		keys = append(keys, auth.Key{ID: k.ID, Subject: k.Subject, SHA256: k.SHA256, Groups: k.Groups, Scopes: k.Scopes, Profiles: k.Profiles, Expires: k.ExpiresAt()})
	}
	return keys
}

func certificatesOf(a *config.Auth) (rules []auth.CertificateRule) {
	for _, c := range a.MTLS {
		rules = append(rules, auth.CertificateRule{
			CommonName: c.CN, DNS: c.DNS, URI: c.URI, Email: c.Email, Subject: c.Subject, Groups: c.Groups, Scopes: c.Scopes, Profiles: c.Profiles,
		})
	}
	return rules
}

// Reload gives an authenticator the API keys and the rules of certificates of a new configuration.
// It returns from which keys something was taken, and whether the rules of certificates differ: other
// rules may have given a principal its groups or profiles, so the sessions of all must end. On error,
// the part that it concerns has not changed. Reload must not be called concurrently.
func Reload(a *auth.Authenticator, before, now *config.Config) (keys auth.KeyChanges, certificates bool, err error) {
	if now.Auth.Has(config.AuthKey) {
		if keys, err = a.SetKeys(keysOf(&now.Auth)); err != nil {
			return auth.KeyChanges{}, false, err
		}
	}
	if rules := certificatesOf(&now.Auth); now.Auth.Has(config.AuthMTLS) && !reflect.DeepEqual(rules, certificatesOf(&before.Auth)) {
		err = a.SetCertificates(rules)
		certificates = err == nil
	}
	return keys, certificates, err
}

func impliedScopes(cfg *config.Config) (all []auth.ImpliedScopes) {
	for _, s := range cfg.Auth.Scopes {
		all = append(all, auth.ImpliedScopes{Scope: s.Scope, Implies: s.Implies})
	}
	return all
}

// CheckIssuers returns one sentence for each issuer whose keys cannot be fetched.
func CheckIssuers(ctx context.Context, cfg *config.Config) ([]string, error) {
	a, err := New(cfg, nil, nil)
	if a == nil || err != nil {
		return nil, err
	}
	return a.FetchKeys(ctx), nil
}

// Examine judges an API key or a token as a gateway with this configuration would at
// the endpoint of the named profile, "" for /mcp.
func Examine(ctx context.Context, cfg *config.Config, text, profile string) (*auth.Examination, error) {
	endpoints := ruleset.Endpoints(cfg)
	a, err := New(cfg, nil, func() *endpoint.Set { return endpoints })
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, errors.New("auth.mode is none: the gateway reads no credentials of clients")
	}
	return a.Examine(ctx, text, endpoint.IDOf(profile)), nil
}
