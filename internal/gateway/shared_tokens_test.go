package gateway

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// slowToTell is a store that answers late who was first.
type slowToTell struct{ storetest.Memory }

func (s *slowToTell) PutNew(ctx context.Context, key store.Key, value []byte, ttl time.Duration) (bool, error) {
	first, err := s.Memory.PutNew(ctx, key, value, ttl)
	if first {
		time.Sleep(time.Second)
	}
	return first, err
}

// Of two replicas that get one token at the same moment, twice each, one redeems it.
func TestSharedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(slowToTell)
		a, b := newSharedTokens(s), newSharedTokens(s)
		token, until := a.New(t.Context()), time.Now().Add(time.Minute)
		if token == a.New(t.Context()) {
			t.Error("two tokens are the same")
		}
		var redeemed atomic.Int32
		var wg sync.WaitGroup
		for _, tokens := range []sharedTokens{a, b, a, b} {
			wg.Go(func() {
				ok, err := tokens.Redeem(t.Context(), token, until)
				if err != nil {
					t.Error(err)
				}
				if ok {
					redeemed.Add(1)
				}
			})
		}
		wg.Wait()
		if n := redeemed.Load(); n != 1 {
			t.Errorf("the token was redeemed %d times", n)
		}
		// The clock of another replica may be late.
		time.Sleep(5 * time.Minute)
		if ok, err := b.Redeem(t.Context(), token, until); ok || err != nil {
			t.Errorf("the token was redeemed again soon after its end: %v, %v", ok, err)
		}
	})
}

// away is a store that is away.
type away struct{ storetest.Memory }

func (*away) PutNew(context.Context, store.Key, []byte, time.Duration) (bool, error) {
	return false, store.ErrUnavailable
}

// While the store is away no token is valid.
func TestSharedTokensFailClosed(t *testing.T) {
	tokens := newSharedTokens(new(away))
	if ok, err := tokens.Redeem(t.Context(), tokens.New(t.Context()), time.Now().Add(time.Hour)); ok || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a token was redeemed: %v, %v", ok, err)
	}
}

// replaced is a store whose content can be lost.
type replaced struct{ store.Values }

// A store that comes back empty makes no consent valid again, at no replica: neither a used one nor one that waits.
func TestSharedTokensOfAnEmptyStore(t *testing.T) {
	s := &replaced{new(storetest.Memory)}
	a, b, c := newSharedTokens(s), newSharedTokens(s), newSharedTokens(s)
	redeem := func(name string, tokens sharedTokens, token string, want bool) {
		t.Helper()
		if ok, err := tokens.Redeem(t.Context(), token, time.Now().Add(time.Minute)); ok != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, ok, err, want)
		}
	}
	used, waiting := a.New(t.Context()), a.New(t.Context())
	redeem("the first use", b, used, true)
	redeem("the second use", a, used, false)
	s.Values = new(storetest.Memory)
	for name, tokens := range map[string]sharedTokens{"a": a, "b": b, "c": c} {
		redeem("the used token at "+name, tokens, used, false)
		redeem("the token that waited at "+name, tokens, waiting, false)
	}
	redeem("a new token", c, b.New(t.Context()), true)
}

// A store that lost only its last writes knows its epoch still; a replica refuses what it has seen redeemed itself.
func TestSharedTokensOfAStoreThatLostWrites(t *testing.T) {
	s := new(storetest.Memory)
	a, b := newSharedTokens(s), newSharedTokens(s)
	token, until := a.New(t.Context()), time.Now().Add(time.Minute)
	for name, tokens := range map[string]sharedTokens{"a": a, "b": b} {
		if _, err := tokens.Redeem(t.Context(), token, until); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if ok, err := tokens.Redeem(t.Context(), token, until); ok || err != nil {
				t.Errorf("%s redeemed the token twice: %v, %v", name, ok, err)
			}
		}()
	}
	if err := s.Delete(t.Context(), store.Key{Kind: "token", Name: token}); err != nil {
		t.Fatal(err)
	}
}

// outage is a store that is away at times.
type outage struct {
	storetest.Memory
	away bool
}

func (o *outage) Get(ctx context.Context, keys ...store.Key) ([][]byte, error) {
	if o.away {
		return nil, store.ErrUnavailable
	}
	return o.Memory.Get(ctx, keys...)
}

// A consent that is asked for while the store is away can be given when it is back.
func TestSharedTokensOfAnOutage(t *testing.T) {
	s := new(outage)
	tokens := newSharedTokens(s)
	tokens.New(t.Context())
	s.away = true
	token := tokens.New(t.Context())
	s.away = false
	if ok, err := tokens.Redeem(t.Context(), token, time.Now().Add(time.Minute)); !ok || err != nil {
		t.Errorf("the token was not redeemed: %v, %v", ok, err)
	}
}

// After the keys of the store were exchanged there is a new epoch.
func TestSharedTokensOfOtherKeys(t *testing.T) {
	s := new(storetest.Memory)
	sealed := func(key byte) sharedTokens {
		return newSharedTokens(store.Sealed(s, [][]byte{bytes.Repeat([]byte{key}, 32)}, func(string, error) {}))
	}
	old := sealed(1).New(t.Context())
	tokens := sealed(2)
	for token, want := range map[string]bool{old: false, tokens.New(t.Context()): true} {
		if ok, err := tokens.Redeem(t.Context(), token, time.Now().Add(time.Minute)); ok != want || err != nil {
			t.Errorf("%v, %v; want %v", ok, err, want)
		}
	}
}
