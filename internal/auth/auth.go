package auth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/ratelog"
)

// Options say which proof is accepted. A kind of proof that nothing is given for is
// not looked at.
type Options struct {
	Keys         []Key
	Issuers      []Issuer
	Certificates []CertificateRule
	// Hierarchy has scopes that stand for others: who has one has those too.
	Hierarchy []ImpliedScopes

	// PublicURL is how clients reach the gateway, without a slash at its end; ""
	// means what the request says. Paths are those of the MCP endpoints below it,
	// the first for clients that do not tell which they use.
	PublicURL string
	Paths     []string

	Logger  *zap.Logger // nothing is logged
	Metrics *Metrics    // collectors of its own, registered nowhere

	// Client fetches metadata and keys of issuers; nil means one with bounds on
	// time, size and redirects. Tests alone give one.
	Client *http.Client
	// Now is the time; nil means time.Now.
	Now func() time.Time
}

// Authenticator finds out who sends requests.
type Authenticator struct {
	keys      atomic.Pointer[[]apiKey] // see SetKeys
	issuers   map[string]*issuer
	certs     []certificateRule
	verified  *tokenCache
	resource  resource
	hierarchy hierarchy
	realm     string // the challenge of those who do not take tokens
	now       func() time.Time
	ratelog   *ratelog.Logger
	metrics   *Metrics
}

// New makes an Authenticator. The error names what of the options is wrong. It
// connects to nobody.
func New(o Options) (*Authenticator, error) {
	a := &Authenticator{now: o.Now, ratelog: ratelog.New(o.Logger), metrics: o.Metrics}
	if a.now == nil {
		a.now = time.Now
	}
	if a.metrics == nil {
		a.metrics = NewMetrics()
	}
	a.hierarchy = newHierarchy(o.Hierarchy)
	a.verified = newTokenCache()
	keys, err := newKeys(o.Keys, a.hierarchy)
	if err != nil {
		return nil, err
	}
	a.keys.Store(&keys)
	if a.certs, err = newCertificateRules(o.Certificates, a.hierarchy); err != nil {
		return nil, err
	}
	if a.issuers, err = newIssuers(o.Issuers, fetcher(o.Client), a.now, a.hierarchy); err != nil {
		return nil, err
	}
	a.resource = newResource(o)
	a.realm = challenge("Bearer", "realm", "mcpgateway")
	if len(o.Keys) == 0 {
		// There is no registered scheme for certificates; Bearer would send
		// clients looking for an authorization server.
		a.realm = challenge("ClientCertificate", "realm", "mcpgateway")
	}
	return a, nil
}

// Authenticate returns who sent a request. The error is a *[Denied], or that of the
// request's context.
func (a *Authenticator) Authenticate(r *http.Request) (*call.Principal, error) {
	who, fail := a.authenticate(r)
	if fail == nil {
		return who, nil
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a.metrics.failures.WithLabelValues(fail.reason).Inc()
	a.ratelog.Log(a.levelOf(fail), "proof refused", zap.String("reason", fail.reason), zap.String("remote", r.RemoteAddr))
	return nil, &Denied{fail, a.challengeFor(r, fail)}
}

// prove finds the one proof of a request and verifies it.
func (a *Authenticator) authenticate(r *http.Request) (*call.Principal, *failure) {
	given, fail := a.credentials(r.Header)
	if fail != nil {
		return nil, fail
	}
	var holder *call.Principal // of the certificate
	if len(a.certs) > 0 {
		if holder, fail = a.certPrincipal(r.TLS); fail != nil && given.text == "" {
			return nil, fail
		}
	}
	switch {
	case given.text == "" && holder == nil:
		return nil, errMissing
	case given.text == "":
		return holder, nil
	case holder != nil:
		return nil, errTwoCredentials
	}
	if who, fail := a.apiKeyPrincipal(given.text); fail != errKeyUnknown || given.keyOnly || len(a.issuers) == 0 {
		return who, fail
	}
	return a.tokenPrincipal(r.Context(), given.text, r.TLS)
}

// byToken verifies a token, or finds that it has been verified.
func (a *Authenticator) tokenPrincipal(ctx context.Context, text string, tls *tlsState) (*call.Principal, *failure) {
	now := a.now()
	known, ok := a.verified.get(text, now)
	if !ok {
		t, fail := parseToken(text)
		if fail != nil {
			return nil, fail
		}
		iss := a.issuers[t.issuer]
		if iss == nil {
			return nil, errIssuer
		}
		if known, fail = iss.verify(ctx, t); fail != nil {
			return nil, fail
		}
		a.verified.put(text, known, now)
	}
	if fail := known.checkBinding(tls); fail != nil {
		return nil, fail
	}
	return known.principal, nil
}

// challengeFor returns the WWW-Authenticate of an answer (RFC 6750, section 3; RFC
// 9728, section 5.1).
func (a *Authenticator) challengeFor(r *http.Request, fail *failure) string {
	switch {
	case fail == errUnavailable:
		return ""
	case len(a.issuers) == 0:
		return a.realm
	}
	params := []string{"resource_metadata", a.resource.metadataURL(r), "scope", strings.Join(a.resource.scopes, " ")}
	if fail.code != "" {
		params = append(params, "error", fail.code, "error_description", fail.message)
	}
	return challenge("Bearer", params...)
}

// ScopeChallenge returns the WWW-Authenticate for a call that lacks scopes: all of
// those that it needs (2025-11-25 and 2026-07-28, basic/authorization, "Runtime
// Insufficient Scope Errors"), those that every token needs among them, since clients
// may ask for exactly what the challenge says.
func (a *Authenticator) ScopeChallenge(r *http.Request, scopes []string) string {
	metadata := ""
	if len(a.issuers) > 0 {
		metadata = a.resource.metadataURL(r)
	}
	all := slices.Clone(a.resource.scopes)
	for _, s := range scopes {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return challenge("Bearer", "error", "insufficient_scope", "scope", strings.Join(all, " "), "resource_metadata", metadata)
}

// Metrics are the collectors of the package.
type Metrics struct {
	failures *prometheus.CounterVec
}

// NewMetrics makes the collectors; the caller registers them.
func NewMetrics() *Metrics {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "mcp_gateway", Name: "auth_failures_total", Help: "Requests whose proof of who calls was refused or missing.",
	}, []string{"reason"})}
	for _, f := range failures {
		m.failures.WithLabelValues(f.reason)
	}
	return m
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector { return []prometheus.Collector{m.failures} }
