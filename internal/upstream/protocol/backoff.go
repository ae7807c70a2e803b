package protocol

import (
	"math/rand/v2"
	"time"
)

const (
	// firstPause is the pause after the first failure. Each further pause is twice as
	// long as the one before.
	firstPause = 250 * time.Millisecond
	// earlyCap bounds the pauses in the first minute: most servers that end are
	// restarted soon. MaxPause bounds them later, and those that a server asks for.
	earlyCap = 5 * time.Second
	MaxPause = 30 * time.Second
	early    = time.Minute
	// AttemptGap is the least time between the starts of two attempts.
	AttemptGap = 250 * time.Millisecond
	// SteadyAfter is how long a conversation must last to count as a success. The
	// pauses for a server that ends sooner each time become longer.
	SteadyAfter = 10 * time.Second
)

// Backoff computes the pauses between attempts. The zero value is ready for use.
type Backoff struct {
	failures int
	since    time.Time // of the first failure
}

// Reset makes the next pause a first one. Call it after a success.
func (b *Backoff) Reset() { *b = Backoff{} }

// Next returns the pause after one more failure. It is up to a half shorter than its
// nominal length, so that connectors that failed together do not retry together.
func (b *Backoff) Next(now time.Time) time.Duration {
	if b.failures == 0 {
		b.since = now
	}
	limit := earlyCap
	if now.Sub(b.since) >= early {
		limit = MaxPause
	}
	pause := min(firstPause<<min(b.failures, 10), limit)
	b.failures++
	return pause - rand.N(pause/2)
}
