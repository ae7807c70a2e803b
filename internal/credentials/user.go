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
	o     Options
	guard *guard
	ask   ask
	named bool // ask.resource is configured
	proof *clientProof
	kept  *cache

	mu    sync.Mutex
	seen  challenge         // what the server last said that it wants
	more  map[string]wider  // by principal what a grant does not reach far enough for
	spent map[string]string // by principal the token that the server has refused
}

// wider are the scopes that a grant should have.
type wider struct {
	scopes []string
	times  int // that the server has said so
}

// maxMore bounds the principals of whom more and spent remember something.
const maxMore = 10_000

// granted is a grant as it is kept.
type granted struct {
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

func newUser(o Options, g *guard, a ask) (*user, error) {
	if o.Store == nil {
		o.Store = NewStore("")
	}
	u := &user{o: o, guard: g, ask: a, named: o.Resource != nil, kept: newCache(o.Now), more: make(map[string]wider), spent: make(map[string]string)}
	if o.Authority.ID == "" {
		return u, nil
	}
	var err error
	u.proof, err = newClientProof(o.Authority.Client)
	return u, err
}

// localKey is the key of whoever uses this machine.
var localKey = call.Local.Key()

// principalKey names who has given a grant. Where no proof is asked for there is one
// principal, and that is whoever uses this machine.
func principalKey(who *call.Principal) string {
	if who == nil || who.Proof == call.Anonymous.Proof || who.Proof == call.Local.Proof {
		return localKey
	}
	return who.Key()
}

// name is what a grant is kept under. A server at another URL is another server,
// whatever it is called.
func (u *user) name(key string) string {
	return strings.Join([]string{"grant", u.o.Upstream, oauthmeta.CanonicalURI(u.o.URL), key}, "\x00")
}

// needed is the error of a call whose principal has to give a grant first.
func (u *user) needed(key string, text string) *Error {
	e := failf("%s", text)
	if key == localKey {
		e.text += ": run gateway login " + u.o.Upstream
	}
	e.grant, e.final = true, true
	return e
}

const textNoGrant = "this server wants a grant of its user, and there is none yet"

func (u *user) token(ctx context.Context, who *call.Principal) (*token, error) {
	key := principalKey(who)
	t, err := u.kept.get(ctx, key, func(ctx context.Context) (*token, error) { return u.current(ctx, key) })
	if e, ok := err.(*Error); ok && e.grant && who == nil {
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
	if t := g.token(); u.good(key, t) {
		return t, nil
	}
	unlock, err := u.o.Store.lock(ctx, u.name(key))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if g, err = u.load(key); err != nil {
		return nil, err
	}
	if t := g.token(); u.good(key, t) { // somebody was faster
		return t, nil
	}
	if g.Refresh == "" {
		return nil, u.drop(key)
	}
	t, err := u.refresh(ctx, g)
	e, _ := err.(*Error)
	forgotten := e != nil && e.code == "invalid_client" && u.proof == nil // servers forget who has registered
	if forgotten {
		g.Client.forget(u.o.Store, g.Issuer, g.Redirect)
	}
	if forgotten || e != nil && e.final {
		// Another process, where they have no lock, may have used the refresh token.
		if other, lerr := u.load(key); lerr == nil && other.Refresh != g.Refresh {
			return other.token(), nil
		}
		return nil, u.drop(key)
	}
	if err != nil {
		return nil, err
	}
	return t, u.save(key, g.renewed(t))
}

// good reports whether a token can be sent.
func (u *user) good(key string, t *token) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.spent[key] != t.access && u.o.Now().Before(t.goodUntil())
}

// load returns a principal's grant.
func (u *user) load(key string) (granted, error) {
	var g granted
	there, err := u.o.Store.load(u.name(key), &g)
	if named := u.o.Authority.Issuer; named != "" && g.Issuer != named {
		there = false // the configuration names another authorization server now
	}
	if err == nil && !there {
		err = u.needed(key, textNoGrant)
	}
	return g, err
}

func (u *user) save(key string, g granted) error { return u.o.Store.save(u.name(key), g) }

// drop forgets a grant that is not good any more, and returns the error that says so.
// The caller holds its lock.
func (u *user) drop(key string) error {
	if err := u.o.Store.remove(u.name(key)); err != nil {
		return err
	}
	return u.needed(key, "the grant of this server's user has ended")
}

func (g granted) token() *token {
	return &token{access: g.Access, refresh: g.Refresh, issued: g.Issued, expires: g.Expires}
}

// renewed returns the grant with another token.
func (g granted) renewed(t *token) granted {
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
func (u *user) refresh(ctx context.Context, g granted) (*token, error) {
	s, err := u.guard.findServer(ctx, g.Issuer)
	if err != nil {
		return nil, err
	}
	form := ask{resource: g.Resource}.form("refresh_token")
	form.Set("refresh_token", g.Refresh)
	return u.endpoint(s, g.Client).request(ctx, form)
}

// endpoint returns the token endpoint of an authorization server for a client of
// its own.
func (u *user) endpoint(s *authServer, c registration) *tokenEndpoint {
	e := &tokenEndpoint{what: "the token endpoint", url: s.token, aud: s.Issuer, guard: u.guard, now: u.o.Now}
	if u.proof != nil && c.ID == u.proof.id && c.Secret == "" {
		e.client, e.methods = u.proof, s.AuthMethods
		return e
	}
	e.client, e.methods = c.proof()
	return e
}

func (u *user) refuse(ctx context.Context, who *call.Principal, access string, c challenge) (bool, error) {
	key := principalKey(who)
	u.mu.Lock()
	u.seen = c
	u.mu.Unlock()
	if access == "" {
		return false, u.needed(key, textNoGrant)
	}
	if !u.kept.refuse(key, access) {
		return false, errYoung
	}
	unlock, err := u.o.Store.lock(ctx, u.name(key))
	if err != nil {
		return false, err
	}
	defer unlock()
	g, err := u.load(key)
	if err != nil || g.Access != access {
		return err == nil, err
	}
	if g.Refresh == "" {
		return false, u.drop(key)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.spent) >= maxMore {
		clear(u.spent)
	}
	u.spent[key] = access
	return true, nil
}

// widen notes that the server wants scopes that a grant lacks (2026-07-28,
// basic/authorization, "Step-Up Authorization Flow"), and returns the error of the
// call. It is nil when the grant has them all, or was to have them a moment ago: asking
// again would change nothing.
func (u *user) widen(who *call.Principal, c challenge) error {
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
	if len(u.more) >= maxMore {
		clear(u.more)
	}
	u.more[key] = wider{union(g.Scopes, c.scopes), u.more[key].times + 1}
	u.seen = c
	return u.needed(key, "this server wants a wider grant of its user")
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
func (s *Source) Wants(who *call.Principal) bool {
	u, ok := s.tokens.(*user)
	if !ok {
		return false
	}
	key := principalKey(who)
	if k, ok := u.kept.look(key); ok && k.err == nil {
		return false
	}
	_, err := u.load(key)
	e, ok := err.(*Error)
	return ok && e.grant
}

// Lacks returns how often the server has said that the grant of a principal does not
// reach far enough, since it was given: a call over which that changes wants a wider
// one, others go on with what there is.
func (s *Source) Lacks(who *call.Principal) int {
	u, ok := s.tokens.(*user)
	if !ok {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.more[principalKey(who)].times
}
