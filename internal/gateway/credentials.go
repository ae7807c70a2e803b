package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"mcpgateway/internal/config"
	"mcpgateway/internal/credentials"
	"mcpgateway/internal/tlsfiles"
	"mcpgateway/internal/upstream/diagnose"
)

// newCredentials translates the credentials for an upstream. It returns nil if they are
// static headers only. obtained is that of the options of credentials.
func newCredentials(name string, u config.Connection, at *url.URL, store *credentials.Store, obtained func(token string)) (*credentials.Source, error) {
	a := u.Auth
	o := credentials.Options{
		Upstream: name, URL: at, Headers: dynamicHeaders(u.Headers), Store: store, Roots: tlsfiles.Roots(u.CA), Obtained: obtained,
		Kind: map[config.CredentialKind]credentials.Kind{
			config.CredentialClient: credentials.Own, config.CredentialExchange: credentials.Exchange,
			config.CredentialEnterprise: credentials.Enterprise, config.CredentialUser: credentials.User,
		}[a.Kind],
		Authority: authorityOf(a.Client), IdP: authorityOf(a.IdP),
		Scopes: a.Scopes, Resource: a.Resource, Audience: a.Audience, SubjectType: a.SubjectToken,
	}
	if o.Kind == "" && len(o.Headers) == 0 {
		return nil, nil
	}
	return credentials.New(o)
}

func authorityOf(c config.Client) credentials.Authority {
	return credentials.Authority{Client: clientOf(c.Registration), Issuer: c.Issuer, TokenURL: c.TokenURL}
}

func clientOf(r config.Registration) credentials.Client {
	return credentials.Client{ID: r.ClientID, Secret: r.ClientSecret.Reveal(), PrivateKey: r.PrivateKey.Reveal(), KeyID: r.KeyID}
}

// dynamicHeaders returns the headers that depend on the principal.
func dynamicHeaders(headers config.Headers) map[string][]credentials.Part {
	out := make(map[string][]credentials.Part)
	for name, value := range headers {
		parts, _ := config.ParseTemplate(value.Reveal()) // config has checked the form
		if !slices.ContainsFunc(parts, func(p config.TemplatePart) bool { return p.Expression != "" }) {
			continue
		}
		for _, p := range parts {
			out[name] = append(out[name], credentials.Part(p))
		}
	}
	return out
}

// staticHeaders returns the headers that do not depend on the principal.
func staticHeaders(headers config.Headers) map[string]string {
	out := reveal(headers)
	for name := range dynamicHeaders(headers) {
		delete(out, name)
	}
	return out
}

// LoginNames returns the names of the upstreams that one can log in to.
func LoginNames(cfg *config.Config) []string {
	var names []string
	for _, u := range cfg.Upstreams {
		if u.Auth.Kind == config.CredentialUser {
			names = append(names, u.Name)
		}
	}
	return names
}

// Login lets the user of this machine grant access to an upstream. It calls show with the
// URL to open in a browser, which is redirected to a port on loopback, 0 for any. It
// returns when the grant is stored, where a gateway with this configuration finds it.
func Login(ctx context.Context, cfg *config.Config, name string, port int, show func(url string)) error {
	at := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == name || u.Key == name })
	if at < 0 {
		names := LoginNames(cfg)
		if len(names) == 0 {
			return errors.New("there is no upstream to log in to: none has auth: {kind: user}")
		}
		return fmt.Errorf("there is no upstream %s; you can log in to %s", name, strings.Join(names, ", "))
	}
	u := cfg.Upstreams[at]
	if err := u.UnsetError(); err != nil {
		return err
	}
	switch {
	case u.Auth.Kind == config.CredentialUser:
	case u.URL == "":
		return fmt.Errorf("the upstream %s is a program, which has what it needs from its env; a login is for a remote server", u.Name)
	default:
		such := ""
		if add := replaceCommand(cfg, u, "--oauth"); add != "" {
			such = ", such as with " + add
		}
		return fmt.Errorf("the upstream %s takes no grants of users; set auth: {kind: user} for it first%s", u.Name, such)
	}
	grants, err := openGrants(cfg)
	if err != nil {
		return err
	}
	defer grants.close()
	source, err := userCredentials(u, grants.Store)
	if err != nil {
		return err
	}
	err = credentials.Login(ctx, source, port, show)
	if credentials.NamesNoServer(err) {
		how := "set headers in place of auth"
		if add := replaceCommand(cfg, u, "--header 'Authorization: Bearer KEY'"); add != "" {
			how = "run " + add
		}
		return fmt.Errorf("%w; if it does not use OAuth, %s; if it does, set auth.issuer of the upstream to the URL of its authorization server", err, how)
	}
	return err
}

// replaceCommand returns the command that replaces the entry of an upstream, "" if there is none to show.
func replaceCommand(cfg *config.Config, u config.Upstream, flags string) string {
	secret := slices.ContainsFunc(cfg.Secrets(os.LookupEnv), func(s string) bool { return strings.Contains(u.URL, s) })
	at, err := url.Parse(u.URL)
	if err != nil || secret || len(u.AllURLs()) > 1 {
		return ""
	}
	return diagnose.ReplaceCommand(u.Name, at, flags)
}

var errNoStateDir = errors.New("there is no folder in which grants are stored; set state_dir")

// userCredentials returns the credentials for an upstream with grants of users.
func userCredentials(u config.Upstream, store *credentials.Store) (*credentials.Source, error) {
	at, err := url.Parse(u.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: url is not a valid URL", u.Name)
	}
	return newCredentials(u.Name, u.Connection, at, store, nil)
}

// Grants returns the grants of users in the state folder or the store of a configuration, also those for
// upstreams that it no longer has.
func Grants(ctx context.Context, cfg *config.Config) ([]credentials.Grant, error) {
	grants, err := openGrants(cfg)
	if err != nil {
		return nil, err
	}
	defer grants.close()
	return grants.list(ctx, cfg)
}

// list returns the grants for the upstreams of a configuration, and for those that it no longer has.
func (grants *openedGrants) list(ctx context.Context, cfg *config.Config) ([]credentials.Grant, error) {
	var known []credentials.Grant
	for _, u := range cfg.Upstreams {
		if u.Auth.Kind == config.CredentialUser {
			known = append(known, credentials.Grant{Upstream: u.Name, URL: u.URL})
		}
	}
	all, err := grants.Grants(ctx, known...)
	if reason := grants.refused.Load(); err == nil && len(all) == 0 && reason != nil {
		return nil, fmt.Errorf("no grant in the store can be read: %w", *reason)
	}
	return all, err
}

// LostGrant is a grant that the user of this machine has no more.
type LostGrant struct {
	Upstream, Why string

	at *url.URL
}

// LostGrants returns the upstreams of a configuration whose grant by the user of this machine was removed because it was of no
// use any more.
func LostGrants(ctx context.Context, cfg *config.Config) ([]LostGrant, error) {
	grants, err := openGrants(cfg)
	if err != nil {
		return nil, err
	}
	defer grants.close()
	var lost []LostGrant
	for _, u := range cfg.Upstreams {
		if at, err := url.Parse(u.URL); err == nil && u.Auth.Kind == config.CredentialUser {
			if why := grants.Lost(ctx, u.Name, at); why != "" {
				lost = append(lost, LostGrant{Upstream: u.Name, Why: why, at: at})
			}
		}
	}
	return lost, nil
}

// ForgetLost makes LostGrants return the grant no more. There is nothing to revoke.
func ForgetLost(ctx context.Context, cfg *config.Config, l LostGrant) error {
	grants, err := openGrants(cfg)
	if err != nil {
		return err
	}
	defer grants.close()
	return grants.ForgetLost(ctx, l.Upstream, l.at)
}

// ForgetClient makes a gateway with this configuration register itself anew before the next grant for an upstream, see
// [credentials.Source.ForgetClient]. It returns false if there is no such upstream for which a gateway registers itself.
func ForgetClient(ctx context.Context, cfg *config.Config, name string) (bool, error) {
	at := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool {
		return (u.Name == name || u.Key == name) && u.Auth.Kind == config.CredentialUser && u.UnsetError() == nil
	})
	if at < 0 {
		return false, nil
	}
	grants, err := openGrants(cfg)
	if err != nil {
		return false, err
	}
	defer grants.close()
	source, err := userCredentials(cfg.Upstreams[at], grants.Store)
	if err != nil {
		return false, err
	}
	return source.ForgetClient(ctx)
}

// Logout removes a grant, and revokes it at its authorization server. It reports whether that server has
// revoked it. untold is the reason why the request for revocation failed. The error says that the grant
// is still stored. A grant for an upstream that the configuration no longer has is revoked with what is stored
// with it: a client that was registered for it needs nothing else.
func Logout(ctx context.Context, cfg *config.Config, g credentials.Grant) (revoked bool, untold, err error) {
	grants, err := openGrants(cfg)
	if err != nil {
		return false, nil, err
	}
	defer grants.close()
	former := config.Upstream{Name: g.Upstream, Connection: config.Connection{URL: g.URL, Auth: config.Credentials{Kind: config.CredentialUser}}}
	for _, u := range append(slices.Clone(cfg.Upstreams), former) {
		if u.Name != g.Upstream || u.Auth.Kind != config.CredentialUser {
			continue
		}
		if source, err := userCredentials(u, grants.Store); err == nil && source.IsFor(g) {
			return source.Revoke(ctx, g)
		}
	}
	return false, errors.New("its upstream is not known"), grants.Forget(ctx, g)
}
