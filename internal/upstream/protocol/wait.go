package protocol

import (
	"context"
	"time"
)

// Poke puts a token into a channel of capacity 1 unless it holds one. It does not block.
func Poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Sleep waits for d, or until ctx ends; then it returns the error of ctx.
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
