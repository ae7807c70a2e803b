package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/store"
)

const textAway = "the store that the gateway shares with its replicas does not answer"

// usedTwice fails the test if the authorization server saw a refresh token twice.
func usedTwice(t *testing.T, as *gatewaytest.AuthServer) {
	t.Helper()
	seen := map[string]bool{}
	for _, form := range as.TokenRequests(gatewaytest.GrantRefresh) {
		if token := form.Get("refresh_token"); seen[token] {
			t.Errorf("a refresh token was used twice")
		} else {
			seen[token] = true
		}
	}
}

// replica returns a source for the same upstream at another replica.
func replica(t *testing.T, s *Source, c *clock, kept store.Store) *Source {
	t.Helper()
	return userSourceAt(t, s, OpenStore(StoreOptions{Shared: kept}), c)
}

func TestStoreAway(t *testing.T) {
	as, c, kept := gatewaytest.NewAuthServer(t, nil), newClock(), newAwayStore(t)
	ann := withToken("ann", "x")
	s := userSource(t, as, c, OpenStore(StoreOptions{Shared: kept}))
	consent(t, s, ann)
	token := bearer(t, s, ann)
	kept.away.Store(true)
	c.pass(grantLife)
	if bearer(t, s, ann) != token || s.NeedsGrant(ann) {
		t.Error("the last access token is not used on")
	}
	c.pass(5*time.Minute - grantLife - time.Second) // shortly before it expires: it should be renewed, and cannot
	if bearer(t, s, ann) != token {
		t.Error("the last access token is not used until it expires")
	}
	c.pass(2 * time.Second)
	fails(t, s, ann, textAway)
	if s.NeedsGrant(ann) {
		t.Error("the user is asked for a grant because the store is away")
	}
	if _, err := s.tokens.(*user).begin(t.Context(), principalKey(ann), "http://127.0.0.1:1/callback", ""); err == nil || !strings.Contains(err.Error(), textAway) || !IsAway(err) {
		t.Errorf("a login begins: %v", err)
	}
	if _, err := s.o.Store.Grants(t.Context()); !IsAway(err) {
		t.Errorf("the list: %v", err)
	}
	if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != 0 {
		t.Errorf("the refresh token was used %d times without a lock", n)
	}
	kept.away.Store(false)
	if bearer(t, s, ann) == token {
		t.Error("the token is not renewed at the first call after the return of the store")
	}
	usedTwice(t, as)
}

// TestStoreGoesAwayDuringARefresh loses the store while the authorization server answers. The new refresh token is not lost.
func TestStoreGoesAwayDuringARefresh(t *testing.T) {
	as, c, kept := gatewaytest.NewAuthServer(t, nil), newClock(), newAwayStore(t)
	var reported []error
	own := OpenStore(StoreOptions{Shared: kept, Unsaved: func(err error) { reported = append(reported, err) }})
	s := userSource(t, as, c, own)
	consent(t, s, nil)
	first := bearer(t, s, nil)
	as.SetMetadata("token_endpoint", serve(t, func(w http.ResponseWriter, r *http.Request) {
		kept.away.Store(true)
		r.URL.Path = "/token"
		as.ServeHTTP(w, r)
	}))
	c.pass(6 * time.Minute)
	second := bearer(t, s, nil)
	if second == first || len(reported) != 1 || !IsAway(reported[0]) {
		t.Fatalf("renewed: %v, reported: %v", second != first, reported)
	}
	c.pass(grantLife)
	if bearer(t, s, nil) != second {
		t.Error("the new access token is not used on")
	}
	kept.away.Store(false)
	// The replica has kept its lock, so another one waits until the grant is stored.
	other := replica(t, s, c, kept)
	got := make(chan string)
	go func() {
		h, err := other.Headers(t.Context(), nil)
		if err != nil {
			t.Error(err)
		}
		got <- strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { own.Run(ctx) })
	if token := <-got; token != second {
		t.Errorf("another replica sends %q, want %q", token, second)
	}
	cancel()
	run.Wait()
	usedTwice(t, as)
	if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
}

// TestUnsavedGrant stores a renewed grant later: unless somebody has changed the grant meanwhile.
func TestUnsavedGrant(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, other *Store, name string, old []byte)
		want      string
	}{
		"nothing":    {func(*testing.T, *Store, string, []byte) {}, `"renewed"`},
		"logged out": {func(t *testing.T, other *Store, name string, _ []byte) { must(t, other.remove(t.Context(), name, nil)) }, ""},
		"logged in":  {func(t *testing.T, other *Store, name string, _ []byte) { must(t, other.save(t.Context(), name, "new")) }, `"new"`},
		"refused": {func(t *testing.T, other *Store, name string, old []byte) {
			must(t, other.remove(t.Context(), name, old))
		}, `"renewed"`},
		"refused another": {func(t *testing.T, other *Store, name string, _ []byte) {
			must(t, other.remove(t.Context(), name, []byte("x")))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kept := newAwayStore(t)
			s, other := OpenStore(StoreOptions{Shared: kept}), OpenStore(StoreOptions{Shared: kept})
			const name = grantKind + "\x00a"
			must(t, s.save(t.Context(), name, "old"))
			old, err := s.read(t.Context(), name)
			must(t, err)
			kept.away.Store(true)
			must(t, s.renew(t.Context(), name, old, "renewed"))
			if v, err := s.read(t.Context(), name); err != nil || string(v) != `"renewed"` {
				t.Errorf("while the store is away: %s, %v", v, err)
			}
			if s.saveUnsaved(t.Context()) != 1 {
				t.Error("it is not unsaved")
			}
			kept.away.Store(false)
			tc.meanwhile(t, other, name, old)
			if s.saveUnsaved(t.Context()) != 0 {
				t.Error("it is still unsaved")
			}
			for _, s := range []*Store{s, other} {
				if v, err := s.read(t.Context(), name); err != nil || string(v) != tc.want {
					t.Errorf("got %s, %v, want %s", v, err, tc.want)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMoveToTheStore starts replicas with a store that had grants in their folders before.
func TestMoveToTheStore(t *testing.T) {
	c, kept := newClock(), newAwayStore(t)
	folders := []string{t.TempDir(), t.TempDir()}
	var before *Source
	for _, dir := range folders {
		before = source(t, Options{Kind: User, URL: at(t, "https://up.example.com/mcp"), Store: NewStore(dir), Now: c.now})
		must(t, before.tokens.(*user).save(t.Context(), localKey, grant{Access: "of " + dir, Refresh: "r", Issued: c.now(), Expires: c.now().Add(time.Hour)}))
	}
	name := before.tokens.(*user).storeName(localKey)
	var all []*Store
	for _, dir := range folders {
		all = append(all, OpenStore(StoreOptions{Folder: dir, Shared: kept}))
	}
	if listed, err := all[0].Grants(t.Context()); err != nil || len(listed) != 1 {
		t.Fatalf("got %v, %v", listed, err)
	}
	for _, s := range all {
		var g grant
		if ok, err := s.load(t.Context(), name, &g); !ok || err != nil || g.Access != "of "+folders[0] {
			t.Errorf("got %q, %v, %v", g.Access, ok, err)
		}
	}
	for _, dir := range folders {
		if _, err := os.Stat((&folder{dir: dir}).file(name)); err == nil {
			t.Errorf("%s still has the grant", dir)
		}
	}
	// A removed grant stays removed, also if a folder has it.
	must(t, all[0].remove(t.Context(), name, nil))
	must(t, NewStore(folders[1]).save(t.Context(), name, grant{Access: "again"}))
	var g grant
	for _, s := range all {
		if ok, err := s.load(t.Context(), name, &g); ok || err != nil {
			t.Errorf("a removed grant came back: %v", err)
		}
	}
}

// TestReseal stores a grant that is used anew, for another time to live, and sealed with the first key.
func TestReseal(t *testing.T) {
	kept := newAwayStore(t)
	old := OpenStore(StoreOptions{Shared: kept})
	const name = grantKind + "\x00a"
	must(t, old.save(t.Context(), name, "v"))
	both := store.Sealed(kept.kept, [][]byte{[]byte(strings.Repeat("n", 32)), []byte(sealKey)}, func(string, error) { kept.refused.Add(1) })
	rotated := OpenStore(StoreOptions{Shared: both})
	rotated.values.(*shared).now = func() time.Time { return time.Now().Add(resealAfter + time.Minute) }
	var v string
	if ok, err := rotated.load(t.Context(), name, &v); !ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	newOnly := OpenStore(StoreOptions{Shared: kept.sealed(strings.Repeat("n", 32))})
	if ok, err := newOnly.load(t.Context(), name, &v); !ok || err != nil || v != "v" {
		t.Errorf("without the old key: %q, %v, %v", v, ok, err)
	}
	if names, err := newOnly.names(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("the list is %q, %v", names, err)
	}
	unlock, err := newOnly.lock(t.Context(), name)
	must(t, err)
	unlock()
}

// TestRefusedValues puts the grant of one principal, and one of another deployment, in the place of another grant.
func TestRefusedValues(t *testing.T) {
	as, c, kept := gatewaytest.NewAuthServer(t, nil), newClock(), newAwayStore(t)
	s := userSource(t, as, c, OpenStore(StoreOptions{Shared: kept}))
	ann, bob := withToken("ann", "x"), withToken("bob", "x")
	consent(t, s, ann)
	u := s.tokens.(*user)
	name := func(p *call.Principal) store.Key { return grantKey(u.storeName(principalKey(p))) }
	raw, err := kept.kept.Get(t.Context(), name(ann))
	must(t, err)
	must(t, kept.kept.Put(t.Context(), name(bob), raw[0], time.Hour))
	if !s.NeedsGrant(bob) || kept.refused.Load() == 0 {
		t.Error("bob has the grant of ann")
	}
	fails(t, s, bob, textNoGrant)
	elsewhere := replica(t, s, c, kept.sealed(strings.Repeat("x", 32)))
	if !elsewhere.NeedsGrant(ann) {
		t.Error("another deployment has the grant of ann")
	}
	consent(t, s, bob) // which replaces what was refused
	bearer(t, s, bob)
}

// TestDeadLock takes over the lock that this process could not release.
func TestDeadLock(t *testing.T) {
	kept := newAwayStore(t)
	s := OpenStore(StoreOptions{Shared: kept})
	unlock, err := s.lock(t.Context(), "a")
	must(t, err)
	kept.away.Store(true)
	unlock()
	kept.away.Store(false)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenStore(StoreOptions{Shared: kept}).lock(over, "a"); err == nil {
		t.Error("another replica has the lock")
	}
	again, err := s.lock(t.Context(), "a")
	must(t, err)
	again()
}

// TestHolderDies lets a replica die while it renews a token: before the authorization server got the refresh token, or before its answer arrived.
func TestHolderDies(t *testing.T) {
	for name, isUsed := range map[string]bool{"before the request": false, "before the answer": true} {
		t.Run(name, func(t *testing.T) {
			as, c, kept := gatewaytest.NewAuthServer(t, nil), newClock(), newAwayStore(t)
			first := userSource(t, as, c, OpenStore(StoreOptions{Shared: kept}))
			ann := withToken("ann", "x")
			consent(t, first, ann)
			token := bearer(t, first, ann)
			u := first.tokens.(*user)
			lock := store.Key{Kind: kindLock, Name: u.storeName(principalKey(ann))}
			c.pass(5*time.Minute - time.Second) // the token is valid, and due for renewal
			must(t, kept.Put(t.Context(), lock, []byte("a dead process"), lockLife))
			if isUsed {
				g, err := u.load(t.Context(), principalKey(ann))
				must(t, err)
				if _, err := u.refresh(t.Context(), g); err != nil {
					t.Fatal(err)
				}
			}
			all := []*Source{replica(t, first, c, kept), replica(t, first, c, kept)}
			for _, s := range all {
				if bearer(t, s, ann) != token {
					t.Error("a call waits for the lock of a dead process although its token is valid")
				}
			}
			c.pass(2 * time.Second)
			got := make([]string, len(all))
			errs := make([]error, len(all))
			var wg sync.WaitGroup
			for i, s := range all {
				wg.Go(func() {
					var h http.Header
					h, errs[i] = s.Headers(t.Context(), ann)
					got[i] = strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
				})
			}
			must(t, kept.Delete(t.Context(), lock)) // it ends by itself
			wg.Wait()
			if !isUsed {
				if got[0] == token || got[0] == "" || got[1] != got[0] || errors.Join(errs...) != nil {
					t.Errorf("the replicas have the tokens %q: %v", got, errs)
				}
				usedTwice(t, as)
				return
			}
			// Nobody has the new refresh token, so the user has to grant access again, and is told so.
			if text := errors.Join(errs...).Error(); !strings.Contains(text, "the authorization server refused the grant of this server's user (invalid_grant)") {
				t.Errorf("the errors do not say it: %s", text)
			}
			for i, s := range all {
				if errs[i] == nil || !s.NeedsGrant(ann) {
					t.Errorf("replica %d does not ask for a grant: %v", i, errs[i])
				}
			}
			if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != 2 {
				t.Errorf("the refresh token was used %d times, want once more after its answer was lost", n)
			}
			consent(t, all[0], ann)
			c.pass(failureLife)
			for _, s := range all {
				bearer(t, s, ann)
			}
		})
	}
}

// sites are the pages of several replicas behind one address. next says which replica serves a request.
type sites struct {
	*site
	all    []*Web
	source []*Source
	next   int
	took   []int
}

func newSites(t *testing.T, kept *awayStore) *sites {
	t.Helper()
	s := &sites{site: newSite(t)}
	for i := range 3 {
		st := OpenStore(StoreOptions{Shared: kept, Changed: func(_ context.Context, name string) {
			for j, other := range s.source {
				if j != i {
					other.GrantChanged(name)
				}
			}
		}})
		s.source = append(s.source, userSourceAt(t, s.site.source, st, s.clock))
		o := s.o
		o.Shared, o.Source = kept, func(name string) *Source { return map[string]*Source{"up": s.source[i]}[name] }
		web, err := NewWeb(o)
		must(t, err)
		s.all = append(s.all, web)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.next = (s.next + 1) % len(s.all)
		s.took = append(s.took, s.next)
		s.all[s.next].ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s.base = srv.URL
	return s
}

// TestGrantOverReplicas gives a grant in a browser each of whose requests reaches another replica, and then one with more scopes.
func TestGrantOverReplicas(t *testing.T) {
	s := newSites(t, newAwayStore(t))
	ann := s.of("ann")
	ann.Profile = "work"
	s.idp.SetUser("ann")
	for _, source := range s.source {
		fails(t, source, ann, textNoGrant) // and is remembered for a moment
	}
	link, id, err := s.all[0].Link(t.Context(), ann, "up")
	must(t, err)
	if again, _, err := s.all[1].Link(t.Context(), ann, "up"); err != nil || again != link {
		t.Errorf("another replica has the link %s, %v, want %s", again, err, link)
	}
	s.ends(browser(t), link, 200, "Access to up is granted")
	if len(s.took) != 3 || s.took[0] == s.took[1] || s.took[1] == s.took[2] || len(s.given) != 1 || s.given[0] != "up "+id || s.giver != "ann" {
		t.Errorf("the replicas %v served the browser, given: %v by %s", s.took, s.given, s.giver)
	}
	token := bearer(t, s.source[0], ann)
	for _, source := range s.source {
		if got := bearer(t, source, ann); got != token {
			t.Error("a replica sends another token")
		}
	}
	s.ends(browser(t), link, 404, "has expired")

	// A step-up: the replica that makes the link knows the scopes, the others do not.
	_, err = s.source[1].Refused(t.Context(), ann, http.Header{}, 403, http.Header{"Www-Authenticate": {`Bearer error="insufficient_scope", scope="write"`}})
	if err == nil {
		t.Fatal("no scope is missing")
	}
	link, _, err = s.all[1].Link(t.Context(), ann, "up")
	must(t, err)
	s.ends(browser(t), link, 200, "Access to up is granted")
	for _, source := range s.source {
		if _, scopes, _ := s.as.TokenSubject(bearer(t, source, ann), source.o.URL.String()); !strings.Contains(strings.Join(scopes, " "), "write") {
			t.Errorf("a replica has a token with the scopes %q", scopes)
		}
	}

	// A removed grant is removed everywhere at once.
	all, err := s.source[2].o.Store.Grants(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	if _, _, err := s.source[2].Revoke(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	for _, source := range s.source {
		if !source.NeedsGrant(ann) {
			t.Error("a replica uses a grant that was removed at another one")
		}
		fails(t, source, ann, textNoGrant)
	}
}

// TestPagesWhileTheStoreIsAway opens pages while links cannot be looked up. The response of the authorization server can be
// used afterwards.
func TestPagesWhileTheStoreIsAway(t *testing.T) {
	kept := newAwayStore(t)
	s := newSites(t, kept)
	s.idp.SetUser("ann")
	link, _, err := s.all[0].Link(t.Context(), s.of("ann"), "up")
	must(t, err)
	kept.away.Store(true)
	if _, _, err := s.all[0].Link(t.Context(), s.of("ann"), "up"); !IsAway(err) {
		t.Errorf("a link is made: %v", err)
	}
	s.ends(browser(t), link, 503, textAway)
	kept.away.Store(false)
	b := browser(t)
	back := step(t, b, step(t, b, step(t, b, step(t, b, link))))
	kept.away.Store(true)
	s.ends(b, back, 503, textAway)
	kept.away.Store(false)
	s.ends(b, back, 200, "Access to up is granted")
	s.ends(b, back, 400, "is unknown")
}

// TestOneOfManyUsesAResponse sends one response to all replicas at once.
func TestOneOfManyUsesAResponse(t *testing.T) {
	s := newSites(t, newAwayStore(t))
	s.idp.SetUser("ann")
	link, _, err := s.all[0].Link(t.Context(), s.of("ann"), "up")
	must(t, err)
	b := browser(t)
	back := at(t, step(t, b, step(t, b, step(t, b, step(t, b, link)))))
	var wg sync.WaitGroup
	codes := make([]int, len(s.all))
	for i, web := range s.all {
		wg.Go(func() {
			r := httptest.NewRequest(http.MethodGet, back.String(), nil)
			for _, c := range b.Jar.Cookies(back) {
				r.AddCookie(c)
			}
			w := httptest.NewRecorder()
			web.ServeHTTP(w, r)
			codes[i] = w.Code
		})
	}
	wg.Wait()
	ok := 0
	for _, code := range codes {
		if code == http.StatusOK {
			ok++
		}
	}
	if n := len(s.as.TokenRequests(gatewaytest.GrantCode)); ok != 1 || n != 1 {
		t.Errorf("the replicas answer %v, and the code was used %d times", codes, n)
	}
}

// TestManyReplicasRefresh lets replicas find at once, again and again, that the token has expired.
func TestManyReplicasRefresh(t *testing.T) {
	as, c, kept := gatewaytest.NewAuthServer(t, nil), newClock(), newAwayStore(t)
	first := userSource(t, as, c, OpenStore(StoreOptions{Shared: kept}))
	consent(t, first, nil)
	all := []*Source{first}
	for range 4 {
		all = append(all, replica(t, first, c, kept))
	}
	const rounds = 5
	for range rounds {
		c.pass(6 * time.Minute)
		tokens := make([]string, len(all))
		var wg sync.WaitGroup
		for i, s := range all {
			wg.Go(func() {
				h, err := s.Headers(t.Context(), nil)
				if err != nil {
					t.Error(err)
				}
				tokens[i] = h.Get("Authorization")
			})
		}
		wg.Wait()
		for _, token := range tokens {
			if token != tokens[0] {
				t.Error("the replicas have different tokens")
			}
		}
	}
	usedTwice(t, as)
	if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != rounds {
		t.Errorf("%d refreshes, want %d", n, rounds)
	}
}

// TestNothingInClearText looks for tokens in what the store has, and for names in its keys.
func TestNothingInClearText(t *testing.T) {
	as, c, kept := gatewaytest.NewAuthServer(t, nil), newClock(), newAwayStore(t)
	dir := t.TempDir()
	s := userSource(t, as, c, OpenStore(StoreOptions{Shared: kept, Folder: dir}))
	consent(t, s, nil)
	g, err := s.tokens.(*user).load(t.Context(), localKey)
	must(t, err)
	raw, err := kept.kept.Get(t.Context(), grantKey(s.tokens.(*user).storeName(localKey)))
	must(t, err)
	fields, err := kept.kept.Fields(t.Context(), allGrants)
	must(t, err)
	dump, err := json.Marshal(fields)
	must(t, err)
	text := string(raw[0]) + string(dump)
	for _, secret := range []string{g.Access, g.Refresh, "127.0.0.1"} {
		if strings.Contains(text, secret) {
			t.Errorf("the store shows %q", secret)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("the folder has %v", files)
	}
	if all, err := s.o.Store.Grants(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the list is %v, %v", all, err)
	}
}
