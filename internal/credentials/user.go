package credentials

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
)

// user are tokens of principals who have granted access to the upstream. What the
// gateway does on its own behalf it does with the grant of the user of this machine, which
// [Login] makes, and without any where there is none.
type user struct {
	o                  Options
	guard              *guard
	ask                tokenParams
	resourceConfigured bool // ask.resource is configured
	clientAuth         *clientAuth
	cache              *cache

	mu            sync.Mutex
	lastChallenge challenge              // what the server last said that it wants
	demands       map[string]scopeDemand // by principal what a grant does not reach far enough for
	refused       map[string]string      // by principal the token that the server has refused
}

// wider are the scopes that a grant should have.
type scopeDemand struct {
	scopes []string
	times  int // that the server has said so
}

// maxMore bounds the principals of whom more and spent remember something.
const maxRemembered = 10_000

// granted is a grant as it is kept.
type grant struct {
	Issuer   string       `json:"issuer"`
	Resource string       `json:"resource,omitempty"`
	Client   registration `json:"client"`
	Redirect string       `json:"redirect,omitempty"` // with which the client is registered
	Access   string       `json:"access"`
	Refresh  string       `json:"refresh,omitempty"`
	Scopes   []string     `json:"scopes,omitempty"`
	Asked    []string     `json:"asked,omitempty"` // the scopes that it was to have
	Issued   time.Time    `json:"issued"`
	Expires  time.Time    `json:"expires,omitzero"`
}

func newUser(o Options, g *guard, a tokenParams) (*user, error) {
	if o.Store == nil {
		o.Store = NewStore("")
	}
	u := &user{o: o, guard: g, ask: a, resourceConfigured: o.Resource != nil, cache: newCache(o.Now), demands: make(map[string]scopeDemand), refused: make(map[string]string)}
	if o.Authority.ID == "" {
		return u, nil
	}
	var err error
	u.clientAuth, err = newClientAuth(o.Authority.Client)
	return u, err
}

// localKey is the key of whoever uses this machine.
var localKey = call.Local.Key()

// principalKey names who has given a grant. Where no proof is asked for there is one
// principal, and that is whoever uses this machine.
func principalKey(who *call.Principal) string {
	if who == nil || who.AuthMethod == call.Anonymous.AuthMethod || who.AuthMethod == call.Local.AuthMethod {
		return localKey
	}
	return who.Key()
}

// name is what a grant is kept under. A server at another URL is another server,
// whatever it is called.
func (u *user) storeName(key string) string {
	return strings.Join([]string{"grant", u.o.Upstream, oauthmeta.CanonicalURI(u.o.URL), key}, "\x00")
}

// needed is the error of a call whose principal has to give a grant first.
func (u *user) grantNeeded(key string, text string) *Error {
	e := failf("%s", text)
	if key == localKey {
		e.text += ": run gateway login " + u.o.Upstream
	}
	e.needsGrant, e.final = true, true
	return e
}

const textNoGrant = "this server wants a grant of its user, and there is none yet"

func (u *user) token(ctx context.Context, who *call.Principal) (*token, error) {
	key := principalKey(who)
	t, err := u.cache.get(ctx, key, func(ctx context.Context) (*token, error) { return u.current(ctx, key) })
	if e, ok := err.(*Error); ok && e.needsGrant && who == nil {
		return nil, nil
	}
	return t, err
}

// current returns the token of the grant that is kept, a new one if need be.
func (u *user) current(ctx context.Context, key string) (*token, error) {
	g, err := u.load(key)
	if err != nil {
		return nil, err
	}
	if t := g.token(); u.isUsable(key, t) {
		return t, nil
	}
	unlock, err := u.o.Store.lock(ctx, u.storeName(key))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if g, err = u.load(key); err != nil {
		return nil, err
	}
	if t := g.token(); u.isUsable(key, t) { // somebody was faster
		return t, nil
	}
	if g.Refresh == "" {
		return nil, u.dropGrant(key)
	}
	t, err := u.refresh(ctx, g)
	e, _ := err.(*Error)
	forgotten := e != nil && e.code == "invalid_client" && u.clientAuth == nil // servers forget who has registered
	if forgotten {
		g.Client.forget(u.o.Store, g.Issuer, g.Redirect)
	}
	if forgotten || e != nil && e.final {
		// Another process, where they have no lock, may have used the refresh token.
		if other, lerr := u.load(key); lerr == nil && other.Refresh != g.Refresh {
			return other.token(), nil
		}
		return nil, u.dropGrant(key)
	}
	if err != nil {
		return nil, err
	}
	return t, u.save(key, g.renewed(t))
}

// good reports whether a token can be sent.
func (u *user) isUsable(key string, t *token) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused[key] != t.access && u.o.Now().Before(t.goodUntil())
}

// load returns a principal's grant.
func (u *user) load(key string) (grant, error) {
	var g grant
	there, err := u.o.Store.load(u.storeName(key), &g)
	if named := u.o.Authority.Issuer; named != "" && g.Issuer != named {
		there = false // the configuration names another authorization server now
	}
	if err == nil && !there {
		err = u.grantNeeded(key, textNoGrant)
	}
	return g, err
}

func (u *user) save(key string, g grant) error { return u.o.Store.save(u.storeName(key), g) }

// drop forgets a grant that is not good any more, and returns the error that says so.
// The caller holds its lock.
func (u *user) dropGrant(key string) error {
	if err := u.o.Store.remove(u.storeName(key)); err != nil {
		return err
	}
	return u.grantNeeded(key, "the grant of this server's user has ended")
}

func (g grant) token() *token {
	return &token{access: g.Access, refresh: g.Refresh, issued: g.Issued, expires: g.Expires}
}

// renewed returns the grant with another token.
func (g grant) renewed(t *token) grant {
	g.Access, g.Issued, g.Expires = t.access, t.issued, t.expires
	if t.refresh != "" {
		g.Refresh = t.refresh
	}
	if t.scope != "" {
		g.Scopes = strings.Fields(t.scope)
	}
	return g
}

// refresh gets another token (RFC 6749, section 6).
func (u *user) refresh(ctx context.Context, g grant) (*token, error) {
	s, err := u.guard.findServer(ctx, g.Issuer)
	if err != nil {
		return nil, err
	}
	form := tokenParams{resource: g.Resource}.form("refresh_token")
	form.Set("refresh_token", g.Refresh)
	return u.endpoint(s, g.Client).request(ctx, form)
}

// endpoint returns the token endpoint of an authorization server for a client of
// its own.
func (u *user) endpoint(s *authServer, c registration) *tokenEndpoint {
	e := &tokenEndpoint{what: "the token endpoint", url: s.token, aud: s.Issuer, guard: u.guard, now: u.o.Now}
	if u.clientAuth != nil && c.ID == u.clientAuth.id && c.Secret == "" {
		e.client, e.methods = u.clientAuth, s.AuthMethods
		return e
	}
	e.client, e.methods = c.clientAuth()
	return e
}

func (u *user) refuse(ctx context.Context, who *call.Principal, access string, c challenge) (bool, error) {
	key := principalKey(who)
	u.mu.Lock()
	u.lastChallenge = c
	u.mu.Unlock()
	if access == "" {
		return false, u.grantNeeded(key, textNoGrant)
	}
	if !u.cache.refuse(key, access) {
		return false, errNewTokenRefused
	}
	unlock, err := u.o.Store.lock(ctx, u.storeName(key))
	if err != nil {
		return false, err
	}
	defer unlock()
	g, err := u.load(key)
	if err != nil || g.Access != access {
		return err == nil, err
	}
	if g.Refresh == "" {
		return false, u.dropGrant(key)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.refused) >= maxRemembered {
		clear(u.refused)
	}
	u.refused[key] = access
	return true, nil
}

// widen notes that the server wants scopes that a grant lacks (2026-07-28,
// basic/authorization, "Step-Up Authorization Flow"), and returns the error of the
// call. It is nil when the grant has them all, or was to have them a moment ago: asking
// again would change nothing.
func (u *user) stepUp(who *call.Principal, c challenge) error {
	key := principalKey(who)
	g, err := u.load(key)
	if err != nil {
		return err
	}
	had := g.Scopes
	if u.o.Now().Sub(g.Issued) < flowTime {
		had = union(had, g.Asked)
	}
	if len(union(had, c.scopes)) == len(had) {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.demands) >= maxRemembered {
		clear(u.demands)
	}
	u.demands[key] = scopeDemand{union(g.Scopes, c.scopes), u.demands[key].times + 1}
	u.lastChallenge = c
	return u.grantNeeded(key, "this server wants a wider grant of its user")
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Wants reports whether a principal has to give a grant before calls of theirs get
// through, in which [Web] and [Login] help.
func (s *Source) NeedsGrant(who *call.Principal) bool {
	u, ok := s.tokens.(*user)
	if !ok {
		return false
	}
	key := principalKey(who)
	if k, ok := u.cache.look(key); ok && k.err == nil {
		return false
	}
	_, err := u.load(key)
	e, ok := err.(*Error)
	return ok && e.needsGrant
}

// Lacks returns how often the server has said that the grant of a principal does not
// reach far enough, since it was given: a call over which that changes wants a wider
// one, others go on with what there is.
func (s *Source) StepUps(who *call.Principal) int {
	u, ok := s.tokens.(*user)
	if !ok {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.demands[principalKey(who)].times
}
