package connector

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// reconnect is Reconnect, and returns the outcome.
func (r *rig) reconnect(ctx context.Context) string {
	if err := r.Reconnect(ctx, upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})); err != nil {
		return err.Error()
	}
	return ""
}

// A call has an attempt made in the pause after one that failed, and waits until the lists are there.
func TestReconnectInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		s.refuse(true)
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
		time.Sleep(10*time.Minute + time.Second) // the pauses have grown
		began, before := time.Now(), s.Starts()
		if got := r.reconnect(t.Context()); !strings.Contains(got, r.Snapshot().Reason) || s.Starts() != before+1 || time.Since(began) > time.Second {
			t.Fatalf("after %s and %d attempts: %s", time.Since(began), s.Starts()-before, got)
		}
		s.refuse(false)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Reconnect(ctx, upstreamtest.ToolCall("echo", "ann", &upstreamtest.Peer{})) }()
		r.watch.wait(t, isReady)
		if took := time.Since(began); took > time.Second {
			t.Errorf("ready after %s", took)
		}
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("ended before the caller has seen the lists: %v", <-done)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// Calls of unknown items cause no more attempts than calls of known ones: the breaker ends a storm.
func TestReconnectIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwitchable()
		s.refuse(true)
		r := start(t, setup{Pipe: s.Pipe, Options: Options{Health: threeFailures()}})
		time.Sleep(10*time.Minute + time.Second)
		before := s.Starts()
		for range 3 {
			if got := r.reconnect(t.Context()); isOpen(got) {
				t.Fatal(got)
			}
		}
		for range 100 {
			if got := r.reconnect(t.Context()); !isOpen(got) {
				t.Fatalf("the breaker lets the call pass: %s", got)
			}
		}
		if n := s.Starts() - before; n != 3 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A server that connects and answers no list is waited for no longer than one that does not connect.
func TestReconnectWaitsForListsAtMostStartupWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		normal := upstreamtest.Legacy(nil)
		s := &upstreamtest.Server{Handle: func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method != wire.MethodToolsList {
				normal(l, m)
			}
		}}
		r := start(t, setup{Pipe: s.Pipe})
		began := time.Now()
		if got := r.reconnect(t.Context()); !strings.Contains(got, "the server has not answered its lists after 10s") || time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %s", time.Since(began), got)
		}
	})
}
