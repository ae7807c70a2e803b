package sessionstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/store"
	"mcpgateway/internal/store/storetest"
)

// flakyStore fails some appends: half of them after it has done them.
type flakyStore struct {
	storetest.Memory
	away    atomic.Bool
	appends atomic.Int64
	every   int64 // every such append fails; 0 means none
}

func (s *flakyStore) Append(ctx context.Context, key store.Key, keep int, ttl time.Duration, entries ...[]byte) error {
	n := s.appends.Add(1)
	if s.away.Load() {
		return store.ErrUnavailable
	}
	fails := s.every > 0 && n%s.every == 0
	if !fails || n%2 == 0 {
		if err := s.Memory.Append(ctx, key, keep, ttl, entries...); err != nil {
			return err
		}
	}
	if fails {
		return errors.New("no answer")
	}
	return nil
}

// runEvents runs Events in a bubble, and calls f.
func runEvents(t *testing.T, s *flakyStore, maxBytes int64, f func(t *testing.T, e *Events)) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEvents(s, time.Hour, maxBytes)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { e.Run(ctx, time.Second) })
		f(t, e)
		stop()
		running.Wait()
	})
}

// read returns the copies of a stream.
func read(t *testing.T, e *Events, session, id string) []stream.Entry {
	t.Helper()
	out, err := e.Read(t.Context(), session, id)
	if err != nil {
		t.Error(err)
	}
	return out
}

// Copies arrive in their order and once, also if the store fails at times, or is away for a while.
func TestCopiesArriveInOrder(t *testing.T) {
	s := &flakyStore{every: 3}
	runEvents(t, s, 1<<30, func(t *testing.T, e *Events) {
		const sessions, events = 40, 50
		for i := range events {
			for n := range sessions {
				e.Of(fmt.Sprint(n), 0).Copy("s", stream.Entry{Number: i + 1, Data: fmt.Appendf(nil, "%d of %d", i+1, n)})
			}
			s.away.Store(i%10 == 5)
			if i%4 == 0 {
				synctest.Wait()
			}
		}
		s.away.Store(false)
		time.Sleep(10 * time.Minute)
		for n := range sessions {
			got := read(t, e, fmt.Sprint(n), "s")
			if len(got) != events {
				t.Fatalf("session %d: %d events", n, len(got))
			}
			for i, entry := range got {
				if entry.Number != i+1 || string(entry.Data) != fmt.Sprintf("%d of %d", i+1, n) {
					t.Errorf("session %d, event %d: %+v", n, i, entry)
				}
			}
		}
	})
}

// The copies of a stream, of a session and of a replica are bounded, and so is what waits for a store that
// is away. Afterwards there is room again.
func TestCopiesAreBounded(t *testing.T) {
	s := new(flakyStore)
	runEvents(t, s, 20<<20, func(t *testing.T, e *Events) {
		c := e.Of("events", 1)
		for i := range 3 * maxStreamEntries {
			if c.Copy("s", stream.Entry{Number: i + 1, Data: []byte("x")}); i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if got := read(t, e, "events", "s"); len(got) != maxStreamEntries || got[0].Number != 2*maxStreamEntries+1 {
			t.Errorf("%d events from %d on", len(got), got[0].Number)
		}
		size := func(session string, streams int) (n int) {
			for i := range streams {
				for _, entry := range read(t, e, session, fmt.Sprint(i)) {
					n += len(entry.Data)
				}
			}
			return n
		}
		for _, session := range []string{"bytes", "more", "most"} {
			for i := range 40 {
				for st := range 4 {
					e.Of(session, 2).Copy(fmt.Sprint(st), stream.Entry{Number: i + 1, Data: make([]byte, 300<<10)})
				}
				synctest.Wait()
			}
		}
		all := 0
		for _, session := range []string{"bytes", "more", "most"} {
			if n := size(session, 1); n > maxStreamBytes {
				t.Errorf("%s: %d bytes of a stream", session, n)
			}
			n := size(session, 4)
			if n > maxSessionBytes {
				t.Errorf("%s: %d bytes of a session", session, n)
			}
			all += n
		}
		if all > 10<<20 || all < 5<<20 {
			t.Errorf("%d bytes of one client", all)
		}
		s.away.Store(true)
		for i := range 100 {
			for n := range 100 {
				e.Of(fmt.Sprint("away", n), 3).Copy("s", stream.Entry{Number: i + 1, Data: make([]byte, 10<<10)})
			}
		}
		if held := e.budget.Held(); held > 20<<20 {
			t.Errorf("%d bytes are held", held)
		}
		s.away.Store(false)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if held := e.budget.Held(); held != 0 {
			t.Errorf("%d bytes are still held", held)
		}
		for i, w := range e.shards {
			if len(w.sessions) != 0 || len(w.complete) != 0 || len(w.dirty) != 0 || w.queued != 0 {
				t.Errorf("writer %d has %d sessions, %d complete and %d dirty streams, %d bytes", i, len(w.sessions), len(w.complete), len(w.dirty), w.queued)
			}
		}
	})
}

// The copies of a complete stream end soon, and those of any other when it has been silent for long.
func TestLifeOfCopies(t *testing.T) {
	runEvents(t, new(flakyStore), 1<<30, func(t *testing.T, e *Events) {
		c := e.Of("a", 1)
		c.Copy("call", stream.Entry{Number: 1, Requests: `["x"]`})
		c.Copy("call", stream.Entry{Number: 2, Requests: `["x"]`, Last: true})
		c.Copy("silent", stream.Entry{Number: 1})
		synctest.Wait()
		if got := read(t, e, "a", "call"); len(got) != 2 || got[1].Requests != `["x"]` || !got[1].Last || got[0].Last {
			t.Errorf("%+v", got)
		}
		time.Sleep(completeLife + sweepAfter)
		if n := len(read(t, e, "a", "call")); n != 0 {
			t.Errorf("%d events of a complete stream are left", n)
		}
		if n := len(read(t, e, "a", "silent")); n != 1 {
			t.Errorf("%d events of a stream", n)
		}
		time.Sleep(time.Hour)
		if n := len(read(t, e, "a", "silent")); n != 0 {
			t.Errorf("%d events of a silent stream are left", n)
		}
	})
}

// Events that are queued when the gateway stops are still written.
func TestQueueIsWrittenAtTheEnd(t *testing.T) {
	s := new(flakyStore)
	e := NewEvents(s, time.Hour, 1<<30)
	e.Of("a", 1).Copy("s", stream.Entry{Number: 1})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e.Run(ctx, time.Second)
	if n := len(read(t, e, "a", "s")); n != 1 {
		t.Errorf("%d events", n)
	}
}

// Copies belong to their session: the same stream of another one has none.
func TestCopiesOfOneSession(t *testing.T) {
	runEvents(t, new(flakyStore), 1<<30, func(t *testing.T, e *Events) {
		e.Of("a", 1).Copy("s", stream.Entry{Number: 1})
		synctest.Wait()
		if n := len(read(t, e, "b", "s")); n != 0 {
			t.Errorf("another session has %d events", n)
		}
		if err := e.Moved(t.Context(), "a", "s", stream.Moved{To: "x", After: 7}); err != nil {
			t.Error(err)
		}
		if got := read(t, e, "a", "s"); len(got) != 2 || got[1].MovedTo != "x" || got[1].Number != 7 {
			t.Errorf("%+v", got)
		}
	})
}

// Ids of requests that are too long are left out, and the event is kept.
func TestLongRequests(t *testing.T) {
	long := `["` + strings.Repeat("x", maxRequests) + `"]`
	if e, ok := parseEntry(appendEntry(nil, stream.Entry{Number: 1, Requests: long, Data: []byte("x")})); !ok || e.Requests != "" || string(e.Data) != "x" {
		t.Errorf("%+v, %t", e, ok)
	}
}

// An entry is read as it was written, and no other text is read as an entry that would be written otherwise.
func FuzzEntry(f *testing.F) {
	for _, e := range []stream.Entry{{}, {Number: 7, Requests: `[1]`, Last: true, Data: []byte("{}")}, {Number: 300, Gap: 200, MovedTo: "x.y"}} {
		f.Add(appendEntry(nil, e))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, ok := parseEntry(data)
		if !ok {
			return
		}
		again, ok := parseEntry(appendEntry(nil, e))
		if e.Data = bytes.Clone(e.Data); !ok || !reflect.DeepEqual(again.Data, e.Data) && len(e.Data) > 0 || again.Number != e.Number || again.Gap != e.Gap || again.Requests != e.Requests || again.MovedTo != e.MovedTo || again.Last != e.Last {
			t.Errorf("%+v, then %+v", e, again)
		}
	})
}
