package credentials

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/gatewaytest"
	"mcpgateway/internal/polltest"
)

// held reports whether a goroutine of this process has a lock, or waits for that of
// another process.
func (s *Store) held(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks[name] != nil
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	one, two, memory := NewStore(dir), NewStore(dir), NewStore("")
	kept := newAwayStore(t)
	here, there := OpenStore(StoreOptions{Shared: kept}), OpenStore(StoreOptions{Shared: kept})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, stores := range map[string][2]*Store{"goroutines": {one, one}, "processes": {one, two}, "memory": {memory, memory}, "replicas": {here, there}} {
		t.Run(name, func(t *testing.T) {
			unlock, err := stores[0].lock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stores[1].lock(over, "a"); !errors.Is(err, context.Canceled) {
				t.Fatalf("while it is held: %v", err)
			}
			other, err := stores[1].lock(t.Context(), "b")
			if err != nil {
				t.Fatalf("another name: %v", err)
			}
			other()
			got := make(chan error, 1)
			go func() {
				again, err := stores[1].lock(t.Context(), "a")
				if err == nil {
					again()
				}
				got <- err
			}()
			unlock()
			if err := <-got; err != nil {
				t.Errorf("after it was held: %v", err)
			}
		})
	}
}

// TestRefreshAtOnce lets two processes find at once that a token has expired. They use
// the refresh token once.
func TestRefreshAtOnce(t *testing.T) {
	eachStore(t, refreshAtOnce)
}

func refreshAtOnce(t *testing.T, open func() *Store) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := loggedIn(t, as, c, open())
	store := open()
	other := source(t, Options{Kind: User, URL: s.o.URL, Store: store, Now: c.now})
	came, goOn := make(chan struct{}, 2), make(chan struct{})
	as.SetMetadata("token_endpoint", serve(t, func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		<-goOn
		r.URL.Path = "/token"
		as.ServeHTTP(w, r)
	}))
	c.pass(6 * time.Minute)
	tokens := make(chan string, 2)
	ask := func(s *Source) {
		h, err := s.Headers(t.Context(), nil)
		if err != nil {
			t.Errorf("%v (%v)", err, errors.Unwrap(err))
		}
		tokens <- h.Get("Authorization")
	}
	go ask(s)
	<-came
	go ask(other)
	polltest.Until(t, "the other process waits", func() bool { return store.held(other.tokens.(*user).storeName(localKey)) })
	close(goOn)
	if first, second := <-tokens, <-tokens; first != second || first == "" {
		t.Errorf("the processes have %q and %q", first, second)
	}
	if n := len(as.TokenRequests(gatewaytest.GrantRefresh)); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

// TestRefusedTokenChangesNoGrant refuses a token early. The refusal may arrive late, and
// must not replace a renewed grant by an older one.
func TestRefusedTokenChangesNoGrant(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := loggedIn(t, as, c, NewStore(""))
	u := s.tokens.(*user)
	token := bearer(t, s, nil)
	before, err := u.load(t.Context(), localKey)
	if err != nil {
		t.Fatal(err)
	}
	sent := http.Header{"Authorization": {"Bearer " + token}}
	const young = "the server refuses a token that was issued a moment ago: run gateway login up again; if that does not help, the log of the server may say why"
	if again, err := s.Refused(t.Context(), nil, sent, 401, http.Header{}); again || err == nil || err.Error() != young {
		t.Errorf("a young token: %v, %v", again, err)
	}
	fails(t, s, nil, young)
	c.pass(minTokenAge)
	token = bearer(t, s, nil)
	sent = http.Header{"Authorization": {"Bearer " + token}}
	if again, err := s.Refused(t.Context(), nil, sent, 401, http.Header{}); !again || err != nil {
		t.Fatalf("got %v, %v", again, err)
	}
	after, err := u.load(t.Context(), localKey)
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("%v, the grant has changed: %s", err, diff)
	}
	if bearer(t, s, nil) == token || len(as.TokenRequests(gatewaytest.GrantRefresh)) != 1 {
		t.Error("the token is sent again")
	}
}

// TestLoginDuringARefresh gives a new grant while the old one is being renewed. The new
// one stays.
func TestLoginDuringARefresh(t *testing.T) {
	as, c := gatewaytest.NewAuthServer(t, nil), newClock()
	s := loggedIn(t, as, c, NewStore(""))
	u := s.tokens.(*user)
	old, err := u.load(t.Context(), localKey)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := u.o.Store.lock(t.Context(), u.storeName(localKey)) // like a refresh
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- login(t, s) }()
	polltest.Until(t, "the code is redeemed", func() bool { return len(as.TokenRequests(gatewaytest.GrantCode)) == 2 })
	if err := u.save(t.Context(), localKey, old.renewed(&token{access: "renewed", refresh: "renewed", issued: c.now()})); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if g, err := u.load(t.Context(), localKey); err != nil || g.Refresh == "renewed" || g.Refresh == old.Refresh {
		t.Errorf("%v, the grant is still the old one", err)
	}
}

// TestDropDuringAFetch drops a token while it is being fetched. The result is not cached.
func TestDropDuringAFetch(t *testing.T) {
	c := newTokenCache(time.Now, func(string) {})
	came, goOn := make(chan struct{}), make(chan struct{})
	got := make(chan *token, 1)
	go func() {
		t, _ := c.get(context.Background(), "k", func(context.Context) (*token, error) {
			close(came)
			<-goOn
			return &token{access: "old", issued: time.Now()}, nil
		})
		got <- t
	}()
	<-came
	c.drop("k")
	now, err := c.get(t.Context(), "k", func(context.Context) (*token, error) { return &token{access: "new", issued: time.Now()}, nil })
	close(goOn)
	if err != nil || now.access != "new" || (<-got).access != "old" {
		t.Errorf("got %+v, %v", now, err)
	}
	if k, ok := c.lookup("k"); !ok || k.token.access != "new" {
		t.Errorf("%+v is kept", k)
	}
}
