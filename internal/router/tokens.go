package router

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"
)

// OneTimeTokens make a consent valid for one call. They may be used concurrently.
type OneTimeTokens interface {
	// New returns a token that was never issued before.
	New(ctx context.Context) string
	// Redeem reports whether the token was not redeemed before, and marks it as
	// redeemed, in one step. It need not be remembered after until. With an error the
	// token must not be taken for valid.
	Redeem(ctx context.Context, token string, until time.Time) (bool, error)
}

// maxTokens bounds how many redeemed tokens are remembered at one time.
const maxTokens = 1 << 17

var errTokens = errors.New("more consents are open than the gateway keeps account of")

// RedeemedTokens are the tokens that one process has seen redeemed. The zero value is ready for use.
type RedeemedTokens struct {
	mu       sync.Mutex
	redeemed map[string]time.Time // until when
	sweepAt  int
	swept    time.Time
}

// Remove forgets a token.
func (r *RedeemedTokens) Remove(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.redeemed, token)
}

// Add remembers a token until then, and reports whether it was not remembered before. It fails if there are too many.
func (r *RedeemedTokens) Add(token string, until time.Time) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.redeemed[token]; again {
		return false, nil
	}
	if r.redeemed == nil {
		r.redeemed, r.sweepAt = make(map[string]time.Time), 1024
	}
	if now := time.Now(); len(r.redeemed) >= r.sweepAt && now.Sub(r.swept) >= sweepPause {
		for t, until := range r.redeemed {
			if now.After(until) {
				delete(r.redeemed, t)
			}
		}
		r.swept = now
		r.sweepAt = min(maxTokens, max(1024, 2*len(r.redeemed)))
	}
	if len(r.redeemed) >= maxTokens {
		return false, errTokens
	}
	r.redeemed[token] = until
	return true, nil
}

// memoryTokens are the tokens of one process. A token of another process counts as
// redeemed, because this one does not know whether it was.
type memoryTokens struct {
	RedeemedTokens
	prefix string // of all tokens of this process
}

func newMemoryTokens() *memoryTokens { return &memoryTokens{prefix: rand.Text() + "."} }

func (m *memoryTokens) New(context.Context) string { return m.prefix + rand.Text() }

func (m *memoryTokens) Redeem(_ context.Context, token string, until time.Time) (bool, error) {
	if !strings.HasPrefix(token, m.prefix) {
		return false, nil
	}
	return m.Add(token, until)
}
