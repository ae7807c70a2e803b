package fairshare

import (
	"sync"
	"testing"
)

func TestSharesAreFair(t *testing.T) {
	b := New(1200, 0)
	for i, want := range []int64{600, 300, 150, 75} { // each takes what it can get
		got := int64(0)
		for b.Acquire(Share(i), 1) == nil {
			got++
		}
		if got != want {
			t.Errorf("share %d got %d, want %d", i, got, want)
		}
	}
	if err := b.Acquire(9, 76); err != ErrExhausted {
		t.Errorf("more than is left: %v", err)
	}
	if err := b.Acquire(0, 1); err != ErrShareExceeded {
		t.Errorf("more than half: %v", err)
	}
	for i, n := range []int64{600, 300, 150, 75} {
		b.Release(Share(i), n)
	}
	if got := b.Held(); got != 0 {
		t.Errorf("%d are held after everything was released", got)
	}
	if err := b.Acquire(1, 600); err != nil {
		t.Errorf("half of an unused budget: %v", err)
	}
}

func TestPerShare(t *testing.T) {
	b := New(1000, 10)
	for _, s := range []Share{1, 2} {
		if err := b.Acquire(s, 10); err != nil {
			t.Errorf("as much as one share may have: %v", err)
		}
		if err := b.Acquire(s, 1); err != ErrShareExceeded {
			t.Errorf("more than one share may have: %v", err)
		}
	}
	if got := b.Held(); got != 20 {
		t.Errorf("%d are held, want 20", got)
	}
}

// Concurrent callers never hold more than the maximum, and leave nothing behind.
func TestConcurrency(t *testing.T) {
	b := New(100, 0)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range int64(2000) {
				if b.Acquire(Share(i%5), n%40) == nil {
					if all := b.shares[i%5].Load(); all > 3*b.max { // others may have added, and not yet been refused
						t.Errorf("a share has %d", all)
					}
					b.Release(Share(i%5), n%40)
				}
			}
		})
	}
	wg.Wait()
	for i := range b.shares {
		if n := b.shares[i].Load(); n != 0 {
			t.Errorf("share %d still has %d", i, n)
		}
	}
}
