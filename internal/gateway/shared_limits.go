package gateway

import (
	"context"
	"time"

	"mcpgateway/internal/replica/sharedlimits"
	"mcpgateway/internal/router"
	"mcpgateway/internal/store"
)

// sharedLimits are the limits of rules as all replicas count them, a router.SharedLimits.
type sharedLimits struct {
	limits *sharedlimits.Limits
	others func() []string
}

// Take implements router.SharedLimits.
func (s sharedLimits) Take(ctx context.Context, limits []router.SharedLimit) (router.LimitedCall, int, time.Duration, error) {
	in := make([]store.Limit, len(limits))
	for i, l := range limits {
		in[i] = store.Limit{Key: store.Key{Kind: "limit", Name: l.Rule + "\x00" + l.Of}, Rate: l.Rate, Burst: l.Burst, Concurrent: l.Concurrent}
	}
	c, reached, wait, err := s.limits.Take(ctx, in)
	if c == nil {
		return nil, reached, wait, err
	}
	return c, reached, wait, err
}

// Replicas implements router.SharedLimits.
func (s sharedLimits) Replicas() int { return len(s.others()) + 1 }
