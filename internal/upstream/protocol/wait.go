package protocol

import (
	"context"
	"time"
)

// Poke leaves a token in a channel of capacity 1, if there is none yet.
func Poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Sleep waits, and returns the error of ctx when that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
