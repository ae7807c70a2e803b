package protocol

import (
	"math/rand/v2"
	"time"
)

const (
	// firstPause is how long a connector waits after the first failure. Each
	// pause after it is twice as long.
	firstPause = 250 * time.Millisecond
	// earlyCap bounds the pauses while the failure is fresh: most upstreams
	// that went away are being restarted. lateCap bounds them later.
	earlyCap = 5 * time.Second
	lateCap  = 30 * time.Second
	early    = time.Minute
	// attemptGap is the least time between the beginnings of two attempts,
	// whoever wants them.
	AttemptGap = 250 * time.Millisecond
	// steady is how long a conversation lasts that counts as a success. A
	// server that dies sooner, again and again, is waited for longer each time.
	SteadyAfter = 10 * time.Second
)

// Backoff tells how long to wait between attempts.
type Backoff struct {
	failures int
	since    time.Time // of the first failure
}

// Reset begins anew, after a success.
func (b *Backoff) Reset() { *b = Backoff{} }

// Next returns the pause after one more failure: up to a half shorter than its
// nominal length, so that connectors which failed together do not come back
// together.
func (b *Backoff) Next(now time.Time) time.Duration {
	if b.failures == 0 {
		b.since = now
	}
	limit := earlyCap
	if now.Sub(b.since) >= early {
		limit = lateCap
	}
	pause := min(firstPause<<min(b.failures, 10), limit)
	b.failures++
	return pause - rand.N(pause/2)
}
