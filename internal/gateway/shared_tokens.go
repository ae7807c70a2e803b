package gateway

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"time"

	"mcpgateway/internal/router"
	"mcpgateway/internal/store"
)

// sharedTokens are one-time tokens of all replicas that share a store, a router.OneTimeTokens. While the
// store is away no token is valid: it cannot be known whether another replica has redeemed it.
//
// A store that lost what it had does not know which tokens were redeemed. So each token begins with the epoch in
// which it was issued, a random value in the store: the store that comes back empty begins a new epoch, in
// which no older token is valid. A store that lost only its last writes still has its epoch; a replica then
// refuses at least the tokens that it has seen redeemed itself.
type sharedTokens struct {
	values   store.Values
	redeemed *router.RedeemedTokens
	epoch    *atomic.Pointer[string] // the last one that was read, nil if none was
}

func newSharedTokens(values store.Values) sharedTokens {
	return sharedTokens{values, new(router.RedeemedTokens), new(atomic.Pointer[string])}
}

const (
	// clockSkew is how far the clocks of replicas may be apart: for so much longer a token is remembered, in case
	// another replica takes the consent for valid still.
	clockSkew = 5 * time.Minute
	// epochLife is much longer than any consent can wait, because an epoch that ends makes all open ones invalid.
	epochLife = 400 * 24 * time.Hour
)

// epochKey is the key of the epoch.
var epochKey = store.Key{Kind: "token-epoch"}

// New returns a token of the epoch. While the store is away it is that of the last epoch which was read.
func (t sharedTokens) New(ctx context.Context) string {
	epoch, err := t.readEpoch(ctx)
	if last := t.epoch.Load(); err != nil && last != nil {
		epoch = *last
	}
	return epoch + "." + rand.Text()
}

// readEpoch reads the epoch, and begins one if there is none.
func (t sharedTokens) readEpoch(ctx context.Context) (string, error) {
	found, err := t.values.Get(ctx, epochKey)
	for begin := t.begin; err == nil && len(found[0]) == 0; begin = t.replace {
		if err = begin(ctx, []byte(rand.Text())); err == nil {
			found, err = t.values.Get(ctx, epochKey) // another replica may have been faster
		}
	}
	if err != nil {
		return "", err
	}
	epoch := string(found[0])
	t.epoch.Store(&epoch)
	return epoch, nil
}

// begin begins an epoch unless another replica has.
func (t sharedTokens) begin(ctx context.Context, epoch []byte) error {
	_, err := t.values.PutNew(ctx, epochKey, epoch, epochLife)
	return err
}

// replace begins an epoch in the place of one that is sealed with keys which no replica has any more.
func (t sharedTokens) replace(ctx context.Context, epoch []byte) error {
	return t.values.Put(ctx, epochKey, epoch, epochLife)
}

// Redeem implements router.OneTimeTokens. The replica claims the token before it asks the store, so that of several
// requests at the same time only one can succeed here.
func (t sharedTokens) Redeem(ctx context.Context, token string, until time.Time) (fresh bool, err error) {
	first, err := t.redeemed.Add(token, until)
	if err != nil || !first {
		return false, err
	}
	defer func() {
		if err != nil { // nobody knows whether it was redeemed: the client may try again
			t.redeemed.Remove(token)
		}
	}()
	fresh, err = t.values.PutNew(ctx, store.Key{Kind: "token", Name: token}, nil, max(0, time.Until(until))+clockSkew)
	if err != nil {
		return false, err
	}
	// The epoch is read afterwards: if the store has lost an earlier use of the token, it has lost its epoch too.
	epoch, err := t.readEpoch(ctx)
	return err == nil && fresh && strings.HasPrefix(token, epoch+"."), err
}
