package stream

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clock notes when something is written.
type clock struct {
	mu     *sync.Mutex
	begin  time.Time
	writes *[]time.Duration
}

func (clock) Open() {}

func (c clock) Write(Pieces) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.writes = append(*c.writes, time.Since(c.begin))
	return true
}

// A stream is never silent for longer than 15 s, and streams that open together do not write together.
func TestKeepAlivesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, minutes = 100, 2
		ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
		defer cancel()
		var mu sync.Mutex
		all := make([][]time.Duration, streams)
		var wg sync.WaitGroup
		for i := range all {
			c := New(Options{}).Connect()
			wg.Go(func() { c.Run(ctx, clock{&mu, time.Now(), &all[i]}, Ends{}) })
		}
		wg.Wait()
		seconds := make(map[time.Duration]int)
		for i, writes := range all {
			for n, at := range slices.Concat(writes, []time.Duration{minutes * time.Minute}) {
				before := time.Duration(0)
				if n > 0 {
					before = writes[n-1]
				}
				if at-before > keepAlive {
					t.Errorf("stream %d was silent for %s", i, at-before)
				}
				seconds[at.Truncate(time.Second)]++
			}
		}
		delete(seconds, minutes*time.Minute)
		for second, n := range seconds {
			if n > streams*2/3 {
				t.Errorf("%d of %d streams write within a second, after %s", n, streams, second)
			}
		}
	})
}

// A connection that is silent keeps no large buffer, however much it has written before.
func TestSilentConnectionsKeepNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		st := New(Options{})
		c := st.Connect()
		var mu sync.Mutex
		var writes []time.Duration
		var wg sync.WaitGroup
		wg.Go(func() { c.Run(ctx, clock{&mu, time.Now(), &writes}, Ends{}) })
		for range 3 {
			st.Send(make([]byte, 100_000))
			st.Send(make([]byte, 100_000))
			synctest.Wait()
		}
		if len(writes) == 0 || cap(st.queue) > maxSpare || cap(c.spare) > maxSpare {
			t.Errorf("after %d writes: %d and %d bytes", len(writes), cap(st.queue), cap(c.spare))
		}
		cancel()
		wg.Wait()
	})
}
