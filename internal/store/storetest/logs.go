package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/store"
)

func logs(t *testing.T, s store.Store) {
	ctx, key := t.Context(), unique("log")
	last := func() string {
		t.Helper()
		id, err := s.Last(ctx, key)
		ok(t, err)
		return id
	}
	if es := read(t, s, key, ""); len(es) != 0 || last() != "" {
		t.Errorf("a log that was never used has %v", es)
	}
	ok(t, s.Append(ctx, key, 10, ttl, []byte("a"), []byte("b")))
	ok(t, s.Append(ctx, key, 10, ttl, []byte("c")))
	es := read(t, s, key, "")
	if data(es) != "abc" {
		t.Fatalf("the log is %q", data(es))
	}
	if last() != es[2].ID {
		t.Errorf("the last entry is %q, want %q", last(), es[2].ID)
	}
	if after := read(t, s, key, es[0].ID); data(after) != "bc" || after[0].ID != es[1].ID {
		t.Errorf("after the first entry there are %q", data(after))
	}
	if after := read(t, s, key, es[2].ID); len(after) != 0 {
		t.Errorf("after the last entry there are %q", data(after))
	}
	if two, err := s.Read(ctx, key, "", 2, 0); err != nil || data(two) != "ab" {
		t.Errorf("the first two entries are %q, %v", data(two), err)
	}
	ok(t, s.Append(ctx, key, 10, ttl, []byte("d")))
	if after := read(t, s, key, es[2].ID); data(after) != "d" {
		t.Errorf("after the former end there are %q", data(after))
	}
	ok(t, s.Delete(ctx, key))
	if es := read(t, s, key, ""); len(es) != 0 {
		t.Errorf("a deleted log has %q", data(es))
	}
	ok(t, s.Append(ctx, key, 10, ttl, []byte("e")))
	if es := read(t, s, key, ""); data(es) != "e" {
		t.Errorf("the log that was deleted and begun again is %q", data(es))
	}
}

func boundedLogs(t *testing.T, s store.Store) {
	ctx, key := t.Context(), unique("log")
	for i := range 500 {
		ok(t, s.Append(ctx, key, 3, ttl, fmt.Appendf(nil, "%d;", i)))
	}
	es := read(t, s, key, "")
	if data(es) != "497;498;499;" {
		t.Errorf("the log is %q", data(es))
	}
	ok(t, s.Append(ctx, key, 2, ttl, []byte("a"), []byte("b"), []byte("c")))
	if got := data(read(t, s, key, es[0].ID)); got != "bc" {
		t.Errorf("the log is %q, also for a reader whose place was forgotten", got)
	}
}

func readWaits(t *testing.T, s store.Store) {
	ctx, key := t.Context(), unique("log")
	if es, err := s.Read(ctx, key, "", 10, 5*time.Millisecond); err != nil || len(es) != 0 {
		t.Errorf("an empty log has %v, %v", es, err)
	}
	ok(t, s.Append(ctx, key, 10, ttl, []byte("a")))
	if es, err := s.Read(ctx, key, "", 10, time.Minute); err != nil || data(es) != "a" {
		t.Errorf("a log with an entry gave %q, %v", data(es), err)
	}
	id, err := s.Last(ctx, key)
	ok(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		// Another log does not end the wait.
		if err := errors.Join(s.Append(ctx, unique("log"), 10, ttl, []byte("x")), s.Append(ctx, key, 10, ttl, []byte("b"))); err != nil {
			t.Error(err)
		}
	})
	if es, err := s.Read(ctx, key, id, 10, time.Minute); err != nil || data(es) != "b" {
		t.Errorf("a read that waited gave %q, %v", data(es), err)
	}
}

func readEnds(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if es, err := s.Read(ctx, unique("log"), "", 10, ttl); !errors.Is(err, context.Canceled) || len(es) > 0 {
			t.Errorf("got %v, %v", es, err)
		}
	})
	cancel()
	wg.Wait()
}

// Reads that wait do not keep others from the store, however many they are.
func manyReads(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := s.Read(ctx, unique("log"), "", 10, ttl); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	key := unique("value")
	for range 50 {
		ok(t, s.Put(ctx, key, nil, ttl))
		get(t, s, key)
	}
	cancel()
	wg.Wait()
}
