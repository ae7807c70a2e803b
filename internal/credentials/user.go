package credentials

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/call"
	"mcpgateway/internal/oauthmeta"
	"mcpgateway/internal/ttlcache"
)

// user obtains tokens from grants of principals. Requests that belong to no principal use
// the grant of the user of this machine, which [Login] stores, and no token without one.
type user struct {
	o                  Options
	guard              *guard
	params             tokenParams
	resourceConfigured bool // params.resource is configured
	clientAuth         *clientAuth
	cache              *tokenCache

	mu            sync.Mutex
	lastChallenge oauthmeta.Challenge    // of the server
	demands       map[string]scopeDemand // by principal: the scopes that the server requires beyond the grant
	refused       map[string]string      // by principal: the token that the server has refused
	without       map[string]bool        // the principals for whom there was no grant when it was last read or removed
	// last has the tokens that were used last, by principal, for as long as they are valid: if the store that
	// replicas share is away, they are used on.
	last *ttlcache.Cache[string, *token]
	// ownGiven is when the gateway's own grant was given, as it was last read for a token.
	ownGiven time.Time
}

// scopeDemand holds the scopes that a grant should have.
type scopeDemand struct {
	scopes []string
	times  int // how often the server has demanded them
}

// grantLife is how long the token of a grant is used before the stored grant is read again.
// Another process may have removed it: gateway logout.
const grantLife = 30 * time.Second

// renewPatience is how long a call whose token is still valid waits until it may renew the token.
const renewPatience = 250 * time.Millisecond

// maxRemembered bounds the principals in demands and refused.
const maxRemembered = 10_000

// grant is a stored grant.
type grant struct {
	Issuer   string       `json:"issuer"`
	Resource string       `json:"resource,omitempty"`
	Client   registration `json:"client"`
	Redirect string       `json:"redirect,omitempty"` // with which the client is registered
	Access   string       `json:"access"`
	Refresh  string       `json:"refresh,omitempty"`
	Scopes   []string     `json:"scopes,omitempty"`
	Asked    []string     `json:"asked,omitempty"` // the scopes that it was to have
	Given    time.Time    `json:"given,omitzero"`  // when the user consented
	Issued   time.Time    `json:"issued"`
	Expires  time.Time    `json:"expires,omitzero"`
}

func newUser(o Options, g *guard, a tokenParams) (*user, error) {
	if o.Store == nil {
		o.Store = NewStore("")
	}
	u := &user{o: o, guard: g, params: a, resourceConfigured: o.Resource != nil, cache: newTokenCache(o.Now, o.Obtained), demands: make(map[string]scopeDemand), refused: make(map[string]string), without: make(map[string]bool), last: ttlcache.New[string, *token](maxCached)}
	u.cache.maxLife = grantLife
	if o.Authority.ID == "" {
		return u, nil
	}
	var err error
	u.clientAuth, err = newClientAuth(o.Authority.Client)
	return u, err
}

// localKey is the key of the user of this machine.
var localKey = call.Local.Identity()

// principalKey returns the key of the principal that gives grants: a grant serves the person in
// all profiles. Principals without authentication are the user of this machine.
func principalKey(principal *call.Principal) string {
	if principal == nil || principal.IsAnonymous() || principal.IsLocal() {
		return localKey
	}
	return principal.Identity()
}

// storeName returns the name of a stored grant. It includes the URL, since another URL is
// another server.
func (u *user) storeName(key string) string {
	return grantName(u.o.Upstream, oauthmeta.CanonicalURI(u.o.URL), key)
}

// grantNeeded is the error of a call whose principal has to give a grant first.
func (u *user) grantNeeded(key string, text string) *Error {
	e := failf("%s", text)
	if key == localKey {
		e.text += ": run gateway login " + u.o.Upstream + advice.ConfigFlag()
	}
	e.needsGrant, e.final = true, true
	return e
}

const (
	textNoGrant    = "this server requires a grant of its user, and there is none yet"
	textNoOwnGrant = "this server requires a grant of its user, and the gateway has none of its own yet"
)

// noGrant is the error of a call whose principal has no grant. stored is one that is not for this authorization server, nil for
// none: then it may have been removed.
func (u *user) noGrant(ctx context.Context, key string, stored []byte) *Error {
	if stored == nil {
		if r, there := u.o.Store.refusalOf(ctx, u.storeName(key)); there {
			return u.grantMissing(key, r.text(key == localKey))
		}
	}
	return u.noneGiven(key)
}

// noneGiven is the error of a call whose principal has not given a grant. The grant of localKey is
// the gateway's own: users may have given theirs.
func (u *user) noneGiven(key string) *Error {
	if key == localKey {
		return u.grantMissing(key, textNoOwnGrant)
	}
	return u.grantMissing(key, textNoGrant)
}

// grantMissing is grantNeeded for a principal without any grant. The error has passed as soon as a grant is stored.
func (u *user) grantMissing(key string, text string) *Error {
	e := u.grantNeeded(key, text)
	e.passed = func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := u.load(ctx, key); err != nil {
			return false
		}
		u.cache.drop(key) // it may keep the failure for a moment longer
		return true
	}
	return e
}

func (u *user) token(ctx context.Context, principal *call.Principal) (*token, error) {
	key := principalKey(principal)
	t, err := u.cache.get(ctx, key, func(ctx context.Context) (*token, error) { return u.current(ctx, key) })
	if e, ok := err.(*Error); ok && e.needsGrant && principal == nil {
		return nil, nil
	}
	return t, err
}

// current returns the token of the stored grant, refreshed if necessary.
func (u *user) current(ctx context.Context, key string) (*token, error) {
	g, err := u.load(ctx, key)
	if err == nil {
		t := g.token()
		u.remember(key, t)
		if key == localKey {
			u.noteOwn(g)
		}
		if u.isUsable(key, t) {
			u.o.Store.noteUse(ctx, u.storeName(key), g.given(), u.o.Now())
			return t, nil
		}
		t, err = u.renew(ctx, key, t)
		if err == nil {
			u.remember(key, t)
			u.o.Store.noteUse(ctx, u.storeName(key), g.given(), u.o.Now())
			return t, nil
		}
	}
	if IsAway(err) {
		if t := u.lastToken(key); t != nil {
			return t, nil
		}
	}
	return nil, err
}

// renew refreshes the token of the stored grant, unless another caller has done so. If somebody else is doing it, or has died
// doing it, calls go on with the token that they have for as long as it is valid.
func (u *user) renew(ctx context.Context, key string, had *token) (*token, error) {
	name := u.storeName(key)
	locking, cancel := ctx, context.CancelFunc(func() {})
	isValid := u.isValid(key, had)
	if isValid {
		locking, cancel = context.WithTimeout(ctx, renewPatience)
	}
	unlock, err := u.o.Store.lock(locking, name)
	cancel()
	if err != nil {
		if isValid && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return had, nil
		}
		return nil, err
	}
	defer unlock()
	g, stored, err := u.read(ctx, key)
	if err != nil {
		return nil, err
	}
	if t := g.token(); u.isUsable(key, t) {
		return t, nil
	}
	if g.Refresh == "" {
		return nil, u.dropGrant(ctx, key, stored, "")
	}
	t, err := u.refresh(ctx, g)
	e, _ := err.(*Error)
	forgotten := e != nil && e.code == "invalid_client" && u.clientAuth == nil // servers forget registered clients
	if forgotten {
		g.Client.forget(ctx, u.o.Store, g.Issuer, g.Redirect)
	}
	if forgotten || e != nil && e.final {
		// Another process may have used the refresh token, on a system without locks.
		if other, lerr := u.load(ctx, key); lerr == nil && other.Refresh != g.Refresh {
			return other.token(), nil
		}
		return nil, u.dropGrant(ctx, key, stored, e.code)
	}
	if err != nil {
		return nil, err
	}
	return t, u.o.Store.renew(ctx, name, stored, g.renewed(t))
}

// isUsable reports whether a token can be sent.
func (u *user) isUsable(key string, t *token) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused[key] != t.access && u.o.Now().Before(t.goodUntil())
}

// isValid reports whether a token can be sent, though it may be time to replace it.
func (u *user) isValid(key string, t *token) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.refused[key] != t.access && u.o.Now().Before(t.validUntil())
}

// remember makes a token the one that is used on if the store is away.
func (u *user) remember(key string, t *token) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last.Put(key, t, t.validUntil(), u.o.Now())
}

// lastToken returns the token that was used last, nil if it is not valid any more.
func (u *user) lastToken(key string) *token {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t, ok := u.last.Get(key, u.o.Now()); ok && u.refused[key] != t.access {
		return t
	}
	return nil
}

// forget forgets what is known of a principal's grant, which has changed.
func (u *user) forget(key string) {
	u.mu.Lock()
	delete(u.demands, key)
	delete(u.without, key)
	u.last.Delete(key)
	u.mu.Unlock()
	u.cache.drop(key)
}

// load returns a principal's grant.
func (u *user) load(ctx context.Context, key string) (grant, error) {
	g, _, err := u.read(ctx, key)
	return g, err
}

// read returns a principal's grant, also as it is stored.
func (u *user) read(ctx context.Context, key string) (g grant, stored []byte, err error) {
	stored, err = u.o.Store.read(ctx, u.storeName(key))
	if err != nil {
		return g, nil, err
	}
	if stored != nil {
		err = decode(stored, &g)
	}
	if err != nil {
		return g, stored, err
	}
	named := u.o.Authority.Issuer // the configuration may name another authorization server now
	if stored == nil || named != "" && g.Issuer != named {
		u.lost(key)
		return g, stored, u.noGrant(ctx, key, stored)
	}
	u.mu.Lock()
	delete(u.without, key)
	u.mu.Unlock()
	return g, stored, nil
}

func (u *user) save(ctx context.Context, key string, g grant) error {
	return u.o.Store.save(ctx, u.storeName(key), g)
}

// dropGrant removes an invalid grant as it is stored, and returns the error that says so. code is the error code of the
// authorization server that refused it, "" if the grant cannot be renewed. The caller holds its lock.
func (u *user) dropGrant(ctx context.Context, key string, stored []byte, code string) error {
	if err := u.o.Store.remove(ctx, u.storeName(key), stored); err != nil {
		return err
	}
	u.lost(key)
	r := refusal{code}
	u.o.Store.noteRefusal(ctx, u.storeName(key), r)
	return u.grantNeeded(key, r.text(key == localKey))
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

// refresh requests a new token (RFC 6749, section 6).
func (u *user) refresh(ctx context.Context, g grant) (*token, error) {
	s, err := u.guard.findServer(ctx, g.Issuer)
	if err != nil {
		return nil, err
	}
	form := tokenParams{resource: g.Resource}.form("refresh_token")
	form.Set("refresh_token", g.Refresh)
	return u.endpoint(s, g.Client).request(ctx, form)
}

// endpoint returns the token endpoint of an authorization server for a client.
func (u *user) endpoint(s *authServer, c registration) *tokenEndpoint {
	e := &tokenEndpoint{what: "the token endpoint", url: s.token, aud: s.Issuer, guard: u.guard, now: u.o.Now}
	if u.clientAuth != nil && c.ID == u.clientAuth.id && c.Secret == "" {
		e.client, e.methods = u.clientAuth, s.AuthMethods
		return e
	}
	e.client, e.methods = c.clientAuth()
	return e
}

func (u *user) refuse(ctx context.Context, principal *call.Principal, access string, c oauthmeta.Challenge) (bool, error) {
	key := principalKey(principal)
	u.mu.Lock()
	u.lastChallenge = c
	u.mu.Unlock()
	if access == "" {
		if _, err := u.load(ctx, key); err != nil {
			return false, err
		}
		return false, u.noneGiven(key)
	}
	newRefused := errNewTokenRefused
	if key == localKey {
		newRefused = failf("%s: run gateway login %s%s again; if that does not help, %s", textNewTokenRefused, u.o.Upstream, advice.ConfigFlag(), textItsLog)
	}
	if !u.cache.refuse(key, access, newRefused) {
		return false, newRefused
	}
	u.mu.Lock()
	u.last.Delete(key)
	u.mu.Unlock()
	unlock, err := u.o.Store.lock(ctx, u.storeName(key))
	if err != nil {
		return false, err
	}
	defer unlock()
	g, stored, err := u.read(ctx, key)
	if err != nil || g.Access != access {
		return err == nil, err
	}
	if g.Refresh == "" {
		return false, u.dropGrant(ctx, key, stored, "")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.refused) >= maxRemembered {
		clear(u.refused)
	}
	u.refused[key] = access
	return true, nil
}

// stepUp records that the server requires scopes that a grant lacks (2026-07-28,
// basic/authorization, "Step-Up Authorization Flow"), and returns the error of the call.
// It returns nil if the grant has all scopes, or if they were requested a moment ago:
// another authorization request would not change anything.
func (u *user) stepUp(ctx context.Context, principal *call.Principal, c oauthmeta.Challenge) error {
	key := principalKey(principal)
	g, err := u.load(ctx, key)
	if err != nil {
		return err
	}
	had := g.Scopes
	if u.o.Now().Sub(g.Issued) < flowTime {
		had = union(had, g.Asked)
	}
	if len(union(had, c.Scopes)) == len(had) {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.demands) >= maxRemembered {
		clear(u.demands)
	}
	u.demands[key] = scopeDemand{union(g.Scopes, c.Scopes), u.demands[key].times + 1}
	u.lastChallenge = c
	return u.grantNeeded(key, "this server requires a grant with more scopes of its user")
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

// TakesGrants reports whether the credentials are grants of users.
func (s *Source) TakesGrants() bool {
	_, ok := s.tokens.(*user)
	return ok
}

// NeedsGrant reports whether a principal has to give a grant before calls can succeed.
// [Web] and [Login] obtain grants.
func (s *Source) NeedsGrant(principal *call.Principal) bool {
	u, ok := s.tokens.(*user)
	if !ok {
		return false
	}
	key := principalKey(principal)
	if k, ok := u.cache.lookup(key); ok && k.err == nil {
		return false
	}
	_, err := u.load(context.Background(), key) // soon, also if the store is away
	e, ok := err.(*Error)
	return ok && e.needsGrant
}

// HasNewGrant reports whether the gateway's own grant has been replaced since the last request with it, and uses the new one from
// now on. It returns soon.
func (s *Source) HasNewGrant() bool {
	u, ok := s.tokens.(*user)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
	defer cancel()
	g, err := u.load(ctx, localKey)
	if err != nil || !u.noteOwn(g) {
		return false
	}
	u.forget(localKey)
	return true
}

// noteOwn notes which grant the gateway's own is now, and reports whether it was another one before.
func (u *user) noteOwn(g grant) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	isNew := !g.given().Equal(u.ownGiven)
	u.ownGiven = g.given()
	return isNew
}

// StepUps returns how often the server has required more scopes since the principal gave
// the grant. If it changes during a call, that call needs more scopes; other calls go on
// with the grant.
func (s *Source) StepUps(principal *call.Principal) int {
	u, ok := s.tokens.(*user)
	if !ok {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.demands[principalKey(principal)].times
}

// GrantChanged forgets what is known of a grant that another replica has changed. name is that of
// StoreOptions.Changed; names of other upstreams are ignored.
func (s *Source) GrantChanged(name string) {
	u, ok := s.tokens.(*user)
	if !ok {
		return
	}
	if key, ok := strings.CutPrefix(name, u.storeName("")); ok {
		u.forget(key)
		_, _ = u.load(context.Background(), key) // for LacksGrant; soon, also if the store is away
	}
}

// UpstreamOf returns the upstream of a grant by a name of StoreOptions.Changed.
func UpstreamOf(name string) string {
	if parts := strings.SplitN(name, "\x00", 3); len(parts) == 3 && parts[0] == grantKind {
		return parts[1]
	}
	return ""
}
