package fairshare

import (
	"errors"
	"sync/atomic"
)

// Share names a client whose holdings are counted. Clients are hashed to shares, so a
// few clients may have to divide one share between them.
type Share uint16

const shares = 1 << 10

// ShareOf returns the share of the client with this hash.
func ShareOf(hash uint64) Share { return Share(hash % shares) }

// Errors of [Budget.Acquire].
var (
	// ErrExhausted means that other clients hold most of the budget.
	ErrExhausted = errors.New("the budget is used up")
	// ErrShareExceeded means that the client itself holds most of the budget, or as
	// much as one client may hold.
	ErrShareExceeded = errors.New("the client holds as much as one client may")
)

// Budget is an amount that all clients share: bytes, calls, sessions. Its methods
// may be called concurrently and take no lock. Make one with [New].
type Budget struct {
	max, perShare int64
	held          atomic.Int64
	shares        [shares]atomic.Int64
}

// New returns a budget with a maximum for all clients, and if perShare is positive,
// a maximum for each share.
func New(max, perShare int64) *Budget { return &Budget{max: max, perShare: perShare} }

// Acquire takes n for a share. If it returns an error, ErrExhausted or
// ErrShareExceeded, nothing was taken.
func (b *Budget) Acquire(s Share, n int64) error {
	share, all := b.shares[s].Add(n), b.held.Add(n)
	tooMuch := b.perShare > 0 && share > b.perShare
	if share <= b.max-all && !tooMuch {
		return nil
	}
	b.Release(s, n)
	if tooMuch || share > all/2 {
		return ErrShareExceeded
	}
	return ErrExhausted
}

// Release gives back n that Acquire took for the share.
func (b *Budget) Release(s Share, n int64) {
	b.shares[s].Add(-n)
	b.held.Add(-n)
}

// Held returns how much all clients hold.
func (b *Budget) Held() int64 { return b.held.Load() }
