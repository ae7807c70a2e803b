package gateway

import (
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

// Of two replicas that get one token at the same moment, one redeems it.
func TestSharedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Memory)
		a, b := sharedTokens{s}, sharedTokens{s}
		token, until := a.New(), time.Now().Add(time.Minute)
		if token == a.New() {
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
	tokens := sharedTokens{new(away)}
	if ok, err := tokens.Redeem(t.Context(), tokens.New(), time.Now().Add(time.Hour)); ok || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a token was redeemed: %v, %v", ok, err)
	}
}
