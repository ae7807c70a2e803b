package gateway

import (
	"context"
	"crypto/rand"
	"time"

	"mcpgateway/internal/store"
)

// sharedTokens are one-time tokens of all replicas that share a store, a router.OneTimeTokens. While the
// store is away no token is valid: it cannot be known whether another replica has redeemed it.
type sharedTokens struct{ values store.Values }

// clockSkew is how far the clocks of replicas may be apart: for so much longer a token is remembered, in case
// another replica takes the consent for valid still.
const clockSkew = 5 * time.Minute

func (t sharedTokens) New() string { return rand.Text() }

func (t sharedTokens) Redeem(ctx context.Context, token string, until time.Time) (bool, error) {
	return t.values.PutNew(ctx, store.Key{Kind: "token", Name: token}, nil, max(0, time.Until(until))+clockSkew)
}
