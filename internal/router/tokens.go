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
	New() string
	// Redeem reports whether the token was not redeemed before, and marks it as
	// redeemed, in one step. It need not be remembered after until. With an error the
	// token must not be taken for valid.
	Redeem(ctx context.Context, token string, until time.Time) (bool, error)
}

// maxTokens bounds how many redeemed tokens are remembered at one time.
const maxTokens = 1 << 17

var errTokens = errors.New("more consents are open than the gateway keeps account of")

// memoryTokens are the tokens of one process. A token of another process counts as
// redeemed, because this one does not know whether it was.
type memoryTokens struct {
	prefix string // of all tokens of this process

	mu       sync.Mutex
	redeemed map[string]time.Time // until when
	sweepAt  int
	swept    time.Time
}

func newMemoryTokens() *memoryTokens {
	return &memoryTokens{prefix: rand.Text() + ".", redeemed: make(map[string]time.Time), sweepAt: 1024}
}

func (m *memoryTokens) New() string { return m.prefix + rand.Text() }

func (m *memoryTokens) Redeem(_ context.Context, token string, until time.Time) (bool, error) {
	if !strings.HasPrefix(token, m.prefix) {
		return false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.redeemed[token]; again {
		return false, nil
	}
	if now := time.Now(); len(m.redeemed) >= m.sweepAt && now.Sub(m.swept) >= sweepPause {
		for t, until := range m.redeemed {
			if now.After(until) {
				delete(m.redeemed, t)
			}
		}
		m.swept = now
		m.sweepAt = min(maxTokens, max(1024, 2*len(m.redeemed)))
	}
	if len(m.redeemed) >= maxTokens {
		return false, errTokens
	}
	m.redeemed[token] = until
	return true, nil
}
