package credentials

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gatewaytest"
)

// consent gives the grant of a principal.
func consent(t *testing.T, s *Source, principal *call.Principal) {
	t.Helper()
	u, key := s.tokens.(*user), principalKey(principal)
	f, err := u.begin(t.Context(), key, "http://127.0.0.1:1/callback", "")
	if err != nil {
		t.Fatal(err)
	}
	answer := step(t, browser(t), f.url())
	if err := u.finish(t.Context(), key, f, at(t, answer).Query()); err != nil {
		t.Fatal(err)
	}
}

func TestGrants(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		as, c, store := gatewaytest.NewAuthServer(t, nil), newClock(), open()
		if all, err := store.Grants(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("before the first grant: %v, %v", all, err)
		}
		s := userSource(t, as, c, store)
		ann := withToken("ann", "x")
		consent(t, s, nil)
		c.pass(time.Minute)
		given := c.now()
		consent(t, s, ann)
		c.pass(6 * time.Minute)
		bearer(t, s, ann) // renews the token, and not the grant

		all, err := store.Grants(t.Context())
		if err != nil || len(all) != 2 {
			t.Fatalf("got %+v, %v", all, err)
		}
		want := Grant{
			Upstream: "up", URL: s.o.URL.String(), Subject: "ann", PrincipalIssuer: "https://idp", AuthMethod: "jwt",
			Issuer: as.URL, Scopes: []string{"read", "offline_access"}, Given: given, Used: c.now(), Expires: c.now().Add(5 * time.Minute), Renewable: true,
		}
		for i, g := range all {
			if g.Local {
				continue
			}
			got, _ := json.Marshal(g)
			if w, _ := json.Marshal(want); string(got) != string(w) {
				t.Errorf("got  %s\nwant %s", got, w)
			}
			if n := as.RefreshTokens(); n != 2 {
				t.Fatalf("%d refresh tokens, want 2", n)
			}
			revoked, untold, err := s.Revoke(t.Context(), all[i])
			if !revoked || untold != nil || err != nil || as.RefreshTokens() != 1 || !s.NeedsGrant(ann) || s.NeedsGrant(nil) {
				t.Errorf("revoked: %v, %v, %v; needs a grant: %v", revoked, untold, err, s.NeedsGrant(ann))
			}
		}
		if all, err = store.Grants(t.Context()); err != nil || len(all) != 1 || !all[0].Local {
			t.Fatalf("got %+v, %v", all, err)
		}
		// A server without revocation, and one that is down, keep nobody from removing a grant.
		as.SetDown(true)
		if revoked, untold, err := s.Revoke(t.Context(), all[0]); revoked || untold == nil || err != nil || !s.NeedsGrant(nil) {
			t.Errorf("revoked: %v, %v, %v", revoked, untold, err)
		}
		if revoked, untold, err := s.Revoke(t.Context(), all[0]); revoked || untold != nil || err != nil {
			t.Errorf("revoked again: %v, %v, %v", revoked, untold, err)
		}
		as.SetDown(false)
		as.SetMetadata("revocation_endpoint", nil)
		consent(t, s, nil)
		if revoked, untold, err := s.Revoke(t.Context(), all[0]); revoked || untold != nil || err != nil {
			t.Errorf("revoked without an endpoint: %v, %v, %v", revoked, untold, err)
		}
	})
}

// A running gateway stops using a grant that another process has removed.
func TestRemovedByAnotherProcess(t *testing.T) {
	eachStore(t, removedByAnother)
}

func removedByAnother(t *testing.T, open func() *Store) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	as.SetLifetime(time.Hour)
	running := userSource(t, as, c, open())
	consent(t, running, nil)
	bearer(t, running, nil)
	other := open()
	all, err := other.Grants(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	if err := other.Forget(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	c.pass(grantLife)
	fails(t, running, call.Anonymous, "the gateway has none of its own yet")
}

// A grant that an older version stored is read, and has its name once it is stored again.
func TestGrantOfAnOlderVersion(t *testing.T) {
	as, c, store := gatewaytest.NewAuthServer(t, nil), newClock(), NewStore(t.TempDir())
	s := userSource(t, as, c, store)
	consent(t, s, nil)
	u := s.tokens.(*user)
	name := u.storeName(localKey)
	g, err := u.load(t.Context(), localKey)
	if err != nil {
		t.Fatal(err)
	}
	g.Given = time.Time{}
	plain, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	seal, err := store.values.(*folder).sealer()
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, seal.NonceSize())
	if err := os.WriteFile(store.values.(*folder).file(name), seal.Seal(nonce, nonce, plain, []byte(name)), 0o600); err != nil {
		t.Fatal(err)
	}
	bearer(t, userSourceAt(t, s, NewStore(dirOf(store)), c), nil)
	if all, err := store.Grants(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a file without a name is listed: %v, %v", all, err)
	}
	known := Grant{Upstream: "up", URL: s.o.URL.String()}
	if all, err := store.Grants(t.Context(), known); err != nil || len(all) != 1 || !all[0].Given.Equal(g.Issued) {
		t.Errorf("got %v, %v", all, err)
	}
	c.pass(6 * time.Minute)
	bearer(t, userSourceAt(t, s, NewStore(dirOf(store)), c), nil)
	if all, err := store.Grants(t.Context(), known); err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Issuer, "http") {
		t.Errorf("got %v, %v", all, err)
	}
	if all, err := store.Grants(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
}

// userSourceAt returns the source of another process for the same upstream.
func userSourceAt(t *testing.T, s *Source, store *Store, c *clock) *Source {
	t.Helper()
	return source(t, Options{Kind: User, URL: s.o.URL, Store: store, Now: c.now})
}

// An operator makes the gateway register anew: an authorization server without its client never answers the browser.
func TestForgetClient(t *testing.T) {
	eachStore(t, func(t *testing.T, open func() *Store) {
		as, c := gatewaytest.NewAuthServer(t, nil), newClock()
		s := userSource(t, as, c, open())
		client := func(s *Source) string {
			t.Helper()
			f, err := s.tokens.(*user).begin(t.Context(), principalKey(withToken("ann", "x")), "http://127.0.0.1:1/oauth/callback", "")
			if err != nil {
				t.Fatal(err)
			}
			return f.client.ID
		}
		first := client(s)
		as.RemoveClients()
		c.pass(time.Minute)
		if again := client(s); again != first {
			t.Fatalf("it registers for each grant: %s after %s", again, first)
		}
		// gateway logout is another process.
		if registers, err := userSourceAt(t, s, open(), c).ForgetClient(t.Context()); err != nil || !registers {
			t.Fatalf("got %v, %v", registers, err)
		}
		second := client(s)
		if third := client(userSourceAt(t, s, open(), c)); second == first || third != second || as.Requests("/register") != 2 {
			t.Errorf("the clients are %s, %s, %s after %d registrations, want one more registration", first, second, third, as.Requests("/register"))
		}
	})
}
