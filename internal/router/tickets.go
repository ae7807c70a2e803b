package router

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"
)

// Tickets are what makes a consent good for one call. They may be used by any
// number of goroutines at once.
type Tickets interface {
	// Ticket returns one that nobody had before.
	Ticket() string
	// Spend reports whether the ticket was not spent before, and spends it, in one
	// step. It need not be remembered after until. With an error it is not to be
	// taken for good.
	Spend(ctx context.Context, ticket string, until time.Time) (bool, error)
}

// maxTickets bounds how many spent tickets are remembered at one time.
const maxTickets = 1 << 17

var errTickets = errors.New("more consents are open than the gateway keeps account of")

// memoryTickets are the tickets of one process: those of another are as good as
// spent, since it is not known what was.
type memoryTickets struct {
	own string // what all tickets of this process begin with

	mu      sync.Mutex
	spent   map[string]time.Time // until when
	sweepAt int
	swept   time.Time
}

func newMemoryTickets() *memoryTickets {
	return &memoryTickets{own: rand.Text() + ".", spent: make(map[string]time.Time), sweepAt: 1024}
}

func (m *memoryTickets) Ticket() string { return m.own + rand.Text() }

func (m *memoryTickets) Spend(_ context.Context, ticket string, until time.Time) (bool, error) {
	if !strings.HasPrefix(ticket, m.own) {
		return false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.spent[ticket]; again {
		return false, nil
	}
	if now := time.Now(); len(m.spent) >= m.sweepAt && now.Sub(m.swept) >= sweepPause {
		for t, until := range m.spent {
			if now.After(until) {
				delete(m.spent, t)
			}
		}
		m.swept = now
		m.sweepAt = min(maxTickets, max(1024, 2*len(m.spent)))
	}
	if len(m.spent) >= maxTickets {
		return false, errTickets
	}
	m.spent[ticket] = until
	return true, nil
}
