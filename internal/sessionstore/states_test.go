package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
	"mcpgateway/internal/wire"
)

// Values that no gateway has written are ignored, and what is beside them is not.
func TestPoisonedStates(t *testing.T) {
	var m storetest.Memory
	s := NewStates(&m, time.Minute, nil)
	long := "x:" + strings.Repeat("x", maxURI)
	put := func(field, value string) {
		if _, err := m.PutField(t.Context(), keyOf("a"), field, []byte(value), maxFields, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	put(fieldLevel, "loud")
	put("x:1", "x:1")
	put(fieldOf("x:2"), "x:3")
	put(fieldOf(long), long)
	put(fieldOf("x:4"), "x:4")
	st, err := s.Load(t.Context(), "a")
	if err != nil || st.Ended || st.Level != wire.LevelNone || fmt.Sprint(st.URIs) != "[x:4]" {
		t.Errorf("%+v, %v", st, err)
	}
	if err := m.Put(t.Context(), keyOf("b"), []byte("a value"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Load(t.Context(), "b"); err != nil || st.Ended || len(st.URIs) > 0 {
		t.Errorf("a value in place of fields: %+v, %v", st, err)
	}
}

// The names in the store say nothing about resources, which clients may keep secret.
func TestNamesOfFieldsAreDigests(t *testing.T) {
	var m storetest.Memory
	s := NewStates(&m, time.Minute, nil)
	if err := s.Change(t.Context(), "a", time.Now().Add(time.Hour), session.Change{Subscribed: "secret:resource"}); err != nil {
		t.Fatal(err)
	}
	fields, err := m.Fields(t.Context(), keyOf("a"))
	for name := range fields {
		if strings.Contains(name, "secret") {
			t.Errorf("field %q", name)
		}
	}
	if len(fields) != 1 || err != nil {
		t.Errorf("%d fields, %v", len(fields), err)
	}
}

// A session cannot fill the store, and its end is always kept.
func TestStatesAreBounded(t *testing.T) {
	var m storetest.Memory
	s := NewStates(&m, time.Minute, nil)
	expires := time.Now().Add(time.Hour)
	var err error
	for i := range maxFields + 1 {
		err = s.Change(t.Context(), "a", expires, session.Change{Subscribed: fmt.Sprint("x:", i)})
	}
	if err != errFull {
		t.Errorf("more subscriptions than a session may have: %v", err)
	}
	if err := s.Change(t.Context(), "a", expires, session.Change{Ended: true}); err != nil {
		t.Error(err)
	}
	if st, err := s.Load(t.Context(), "a"); err != nil || !st.Ended || len(st.URIs) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Renew(t.Context(), "a", session.State{Level: wire.LevelError}); err != nil {
		t.Error(err)
	}
	if st, err := s.Load(t.Context(), "a"); err != nil || st.Level != wire.LevelNone {
		t.Errorf("a session that has ended was renewed: %+v, %v", st, err)
	}
}

// awayStore takes nothing while it is away.
type awayStore struct {
	storetest.Memory
	away bool
}

func (s *awayStore) PutField(ctx context.Context, key store.Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	if s.away {
		return false, store.ErrUnavailable
	}
	return s.Memory.PutField(ctx, key, field, value, max, ttl)
}

// Changes that wait for the store take a bounded memory, and none when the store is back.
func TestUnwrittenChangesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &awayStore{away: true}
		s := NewStates(m, time.Minute, nil)
		expires := time.Now().Add(time.Hour)
		for i := range 50_000 {
			_ = s.Change(t.Context(), fmt.Sprint("a", i), expires, session.Change{Subscribed: strings.Repeat("x", 1000)})
		}
		for range 10 {
			_ = s.Change(t.Context(), "a1", expires, session.Change{Level: wire.LevelError})
			_ = s.Change(t.Context(), "a2", expires, session.Change{Ended: true})
			_ = s.Change(t.Context(), "a2", expires, session.Change{Level: wire.LevelError})
		}
		if n := s.unwritten.bytes; n > maxUnwritten || n < maxUnwritten/2 {
			t.Errorf("the changes take %d bytes", n)
		}
		ctx, end := context.WithCancel(t.Context())
		m.away = false
		go s.Run(ctx)
		time.Sleep(time.Second)
		end()
		synctest.Wait()
		if n, sessions := s.unwritten.bytes, len(s.unwritten.sessions); n != 0 || sessions != 0 {
			t.Errorf("%d bytes, %d sessions are left", n, sessions)
		}
		if st, err := s.Load(t.Context(), "a2"); err != nil || !st.Ended {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// hangingStore never answers.
type hangingStore struct{ storetest.Memory }

func (*hangingStore) Fields(ctx context.Context, _ store.Key) (map[string][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A request does not wait for long for a store that hangs.
func TestLoadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := NewStates(new(hangingStore), time.Minute, nil).Load(t.Context(), "a")
		if waited := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || waited != timeout {
			t.Errorf("%v after %s", err, waited)
		}
	})
}

// A text that is no note changes nothing.
func TestMalformedNotes(t *testing.T) {
	for _, note := range []string{"", "x", "{}", `{"id":""}`, `{"id":7}`} {
		Note([]byte(note), func(id string, c session.Change) { t.Errorf("%q: %q, %+v", note, id, c) })
	}
}
