package sharedtasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

var ann, bob = &call.Principal{Subject: "ann", AuthMethod: "jwt"}, &call.Principal{Subject: "bob", AuthMethod: "jwt"}

// flaky is a store whose fields are away for a while.
type flaky struct {
	storetest.Memory
	away atomic.Bool
}

func (f *flaky) Fields(ctx context.Context, key store.Key) (map[string][]byte, error) {
	if f.away.Load() {
		return nil, store.ErrUnavailable
	}
	return f.Memory.Fields(ctx, key)
}

func (f *flaky) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	if f.away.Load() {
		return false, store.ErrUnavailable
	}
	return f.Memory.PutField(ctx, key, field, value, max, ttl)
}

func (f *flaky) DeleteField(ctx context.Context, key store.Key, field string) error {
	if f.away.Load() {
		return store.ErrUnavailable
	}
	return f.Memory.DeleteField(ctx, key, field)
}

// of returns the ids of the tasks of a principal after a number.
func of(t *testing.T, b *Book, who *call.Principal, after int64) string {
	t.Helper()
	_, ids, err := b.Of(t.Context(), who, after)
	if err != nil {
		return err.Error()
	}
	return strings.Join(ids, " ")
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each replica sees the tasks of all, in the order of their numbers, and only those of the principal in its profile.
func TestBook(t *testing.T) {
	var m storetest.Memory
	a, b := New(&m, "a"), New(&m, "b")
	a.Add(t.Context(), ann, "1", "one", 1, 0)
	b.Add(t.Context(), ann, "3", "three", 3, 0)
	a.Add(t.Context(), ann, "2", "two", 2, 0)
	a.Add(t.Context(), ann.In("dev"), "4", "four", 4, 0)
	a.Add(t.Context(), bob, "1", "of bob", 1, 0)
	for _, book := range []*Book{a, b} {
		want(t, of(t, book, ann, 0), "one two three")
		want(t, of(t, book, ann, 1), "two three")
		want(t, of(t, book, ann.In("dev"), 0), "four")
		want(t, of(t, book, bob, 0), "of bob")
	}
	b.Add(t.Context(), ann, "1", "again", 5, 0)
	b.Remove(t.Context(), ann, "2")
	b.Remove(t.Context(), ann, "none")
	want(t, of(t, a, ann, 0), "three again")
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m storetest.Memory
		a := New(&m, "a")
		a.Add(t.Context(), ann, "1", "short", 1, time.Minute)
		a.Add(t.Context(), ann, "2", "endless", 2, 1<<62)
		time.Sleep(time.Minute)
		want(t, of(t, a, ann, 0), "short endless")
		time.Sleep(grace + time.Second)
		want(t, of(t, a, ann, 0), "endless")
		time.Sleep(life)
		want(t, of(t, a, ann, 0), "")
		if fields, err := m.Fields(t.Context(), keyOf(ann.Identity())); err != nil || len(fields) > 0 {
			t.Errorf("the store has %d fields, %v", len(fields), err)
		}
	})
}

// If a principal has too many tasks, those go that have expired, else the oldest.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m storetest.Memory
		a := New(&m, "a")
		add := func(n int, ttl time.Duration) {
			a.Add(t.Context(), ann.In([]string{"", "dev"}[n%2]), fmt.Sprint(n), fmt.Sprint(n), int64(n), ttl)
		}
		for n := range maxOwn {
			add(n, time.Hour)
		}
		add(maxOwn, time.Hour)
		if _, ids, _ := a.Of(t.Context(), ann, 0); len(ids) != maxOwn/2-maxOwn/128+1 || ids[0] != fmt.Sprint(maxOwn/64) {
			t.Errorf("%d tasks from %q on", len(ids), ids[0])
		}
		time.Sleep(2 * time.Hour)
		for n := range maxOwn / 2 {
			add(2*maxOwn+n, time.Hour)
		}
		if _, ids, _ := a.Of(t.Context(), ann, 0); len(ids) != maxOwn/4 {
			t.Errorf("%d tasks", len(ids))
		}
	})
}

// A change while the store is away is seen at its replica at once, and at the others when the store is back.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flaky
		a, b := New(&f, "a"), New(&f, "b")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			a.Run(ctx)
			close(done)
		}()
		a.Add(t.Context(), ann, "1", "before", 1, 0)
		f.away.Store(true)
		a.Add(t.Context(), ann, "2", "meanwhile", 2, 0)
		a.Add(t.Context(), ann, "3", "and gone", 3, 0)
		a.Remove(t.Context(), ann, "3")
		a.Remove(t.Context(), ann, "1")
		if _, _, err := a.Of(t.Context(), ann, 0); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		time.Sleep(3*retryEvery + retryEvery/2) // between two attempts
		f.away.Store(false)
		want(t, of(t, a, ann, 0), "meanwhile")
		want(t, of(t, b, ann, 0), "before")
		time.Sleep(2 * retryEvery)
		want(t, of(t, b, ann, 0), "meanwhile")
		cancel()
		<-done
		if len(a.unwritten) > 0 {
			t.Errorf("%d changes wait", len(a.unwritten))
		}
	})
}

// Entries that no gateway has written, or that were moved, are in no list.
func TestPoisoned(t *testing.T) {
	var m storetest.Memory
	refused := 0
	s := store.Sealed(&m, [][]byte{bytes.Repeat([]byte{1}, 32)}, func(string, error) { refused++ })
	a := New(s, "a")
	a.Add(t.Context(), ann, "1", "good", 1, 0)
	a.Add(t.Context(), bob, "1", "of bob", 1, 0)
	put := func(s store.Fields, field string, value []byte) {
		if _, err := s.PutField(t.Context(), keyOf(ann.Identity()), field, value, maxOwn, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	fields, err := m.Fields(t.Context(), keyOf(bob.Identity()))
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range fields {
		put(&m, "x"+field, value)
	}
	put(&m, "y", []byte(`{"id":"plain","seq":2,"expires":99999999999}`))
	put(s, "z", []byte(`[]`))
	put(s, "long", []byte(`{"id":"`+strings.Repeat("x", maxID+1)+`","expires":99999999999}`))
	want(t, of(t, a, ann, 0), "good")
	if refused != 2 {
		t.Errorf("%d values were refused, want 2", refused)
	}
}
