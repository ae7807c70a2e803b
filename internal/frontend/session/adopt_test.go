package session

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// sealedConfig is the configuration of a session with a sealed id that counts for a share.
func sealedConfig(share fairshare.Share) Config {
	c := testConfig("")
	c.Claims = sealedIDs(1).Seal(testClient(), c.Principal, time.Now())
	c.Counted, c.Share = true, share
	return c
}

// A session that is adopted counts like one that is opened.
func TestAdoptedSessionsAreBounded(t *testing.T) {
	table, gauge := testTable(100, time.Hour)
	var had []*Session
	for {
		s, err := table.Adopt(sealedConfig(1))
		if err != nil {
			if err != fairshare.ErrShareExceeded {
				t.Error(err)
			}
			break
		}
		had = append(had, s)
	}
	if got := testutil.ToFloat64(gauge); len(had) != 50 || got != 50 {
		t.Errorf("of 100 sessions one client adopts %d, the gauge is %v", len(had), got)
	}
	if _, err := open(table, "opened", 2); err != nil {
		t.Errorf("another client: %v", err)
	}
	for _, s := range had {
		table.Close(s, ErrEnded)
	}
	if got := testutil.ToFloat64(gauge); got != 1 {
		t.Errorf("after the sessions ended the gauge is %v", got)
	}
}

// Requests that arrive at once adopt one session.
func TestSessionIsAdoptedOnce(t *testing.T) {
	table, gauge := testTable(100, time.Hour)
	c := sealedConfig(1)
	found := make([]*Session, 20)
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() { found[i], _ = table.Adopt(c) })
	}
	wg.Wait()
	for _, s := range found {
		if s == nil || s != found[0] {
			t.Fatalf("there are several sessions, or none: %v", found)
		}
	}
	if got := testutil.ToFloat64(gauge); got != 1 || !found[0].IsAdopted() {
		t.Errorf("the gauge is %v, adopted %t", got, found[0].IsAdopted())
	}
}

// A session that was ended is not adopted again; one that was idle is, until its id expires.
func TestEndsOfSealedSessions(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(*Table, *Session)
		want error
	}{
		"closed":                            {func(t *Table, s *Session) { t.Close(s, ErrEnded) }, ErrUnknown},
		"closed with those of its owner":    {func(t *Table, s *Session) { t.CloseOf(s.Principal.Same, ErrEnded) }, ErrUnknown},
		"idle":                              {func(t *Table, s *Session) { t.Expire(time.Now().Add(time.Hour)) }, nil},
		"the process stops":                 {func(t *Table, s *Session) { t.CloseAll(errStop) }, errStop},
		"the process stops, and it is gone": {func(t *Table, s *Session) { t.Close(s, ErrEnded); t.CloseAll(errStop) }, errStop},
	} {
		t.Run(name, func(t *testing.T) {
			for _, begin := range map[string]func(*Table, Config) (*Session, error){"opened": (*Table).Open, "adopted": (*Table).Adopt} {
				table, _ := testTable(10, time.Minute)
				c := sealedConfig(1)
				s, err := begin(table, c)
				if err != nil {
					t.Fatal(err)
				}
				if tc.end(table, s); table.Find(s.ID()) != nil {
					t.Fatal("the session is still there")
				}
				if again, err := table.Adopt(c); err != tc.want || (err == nil) != (again != nil && again != s) {
					t.Errorf("adopted again: %v, want %v", err, tc.want)
				}
			}
		})
	}
}

var errStop = errors.New("stopped")

// A request that finds a session again keeps it from expiring.
func TestAdoptKeepsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := testTable(10, time.Minute)
		c := sealedConfig(1)
		s, err := table.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if again, err := table.Adopt(c); again != s || err != nil || s.IsAdopted() {
			t.Fatalf("another session: %t, %v, adopted %t", again != s, err, s.IsAdopted())
		}
		table.Expire(time.Now())
		if table.Find(s.ID()) != s {
			t.Error("the session has expired")
		}
	})
}

// A session ends with its id, but not while a request runs.
func TestSealedSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := testTable(10, 2*MaxLife)
		s, err := table.Adopt(sealedConfig(1))
		if err != nil {
			t.Fatal(err)
		}
		id, r := wire.IDOf("1"), &request{}
		if err := s.Begin(id, r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(MaxLife)
		table.Expire(time.Now())
		if r.cause != nil || table.Find(s.ID()) != s {
			t.Fatalf("the session ended during a request: %v", r.cause)
		}
		s.Done(id, r)
		table.Expire(time.Now())
		if table.Find(s.ID()) != nil {
			t.Error("the session outlives its id")
		}
	})
}

// The client of a session from before the process began is told to read the lists again.
func TestOlderSessionsLearnOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := sealedConfig(1)
		time.Sleep(time.Second)
		table, _ := testTable(10, time.Minute)
		time.Sleep(time.Second)
		after := sealedConfig(1)
		for c, want := range map[*Config]stream.ListChanges{&before: stream.AllChanged, &after: 0} {
			s, err := table.Adopt(*c)
			if err != nil {
				t.Fatal(err)
			}
			if s.pending.Lists != want {
				t.Errorf("the changes are %b, want %b", s.pending.Lists, want)
			}
		}
	})
}

// The table forgets only the oldest ids, and its memory is bounded.
func TestEndedIDsAreBounded(t *testing.T) {
	var e endedIDs
	name := func(i int) string { return fmt.Sprint("id-", i) }
	for i := range maxEnded + 10 {
		e.add(name(i))
	}
	for i, want := range map[int]bool{0: false, 9: false, 10: true, maxEnded: true, maxEnded + 9: true, maxEnded + 10: false} {
		if e.has(name(i)) != want {
			t.Errorf("id %d is remembered: %t", i, !want)
		}
	}
	if len(e.known) != maxEnded || len(e.order) != maxEnded {
		t.Errorf("%d ids in %d places", len(e.known), len(e.order))
	}
}

// A full table forgets idle sessions that can be adopted again, of the share that is exceeded. Sessions in
// use, those that were opened here, and those whose state nobody else has, stay.
func TestFullTableForgetsAdoptedSessions(t *testing.T) {
	for _, kept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table, _ := testTable(16, time.Hour)
			table.options.Kept = kept
			adopt := func(share fairshare.Share) (*Session, error) { return table.Adopt(sealedConfig(share)) }
			var all []*Session
			for i := range 8 {
				s, err := adopt(1)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, s)
				time.Sleep(time.Duration(i))
			}
			if _, err := adopt(1); err != fairshare.ErrShareExceeded {
				t.Errorf("sessions that were used just now: %v", err)
			}
			opened, err := open(table, "opened", 2)
			if err != nil {
				t.Fatal(err)
			}
			other, err := adopt(2)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour / 2)
			runs := all[0]
			if err := runs.Begin(wire.IDOf("1"), nil); err != nil {
				t.Fatal(err)
			}
			all[1].SetLogLevel(wire.LevelError)
			if err := all[2].AddSubscription("x:1", func() {}); err != nil {
				t.Fatal(err)
			}
			if _, err := adopt(1); err != nil {
				t.Errorf("a full share: %v", err)
			}
			gone := func(s *Session) bool { return table.Find(s.ID()) != s }
			if gone(runs) || gone(opened) || gone(other) {
				t.Error("a session was forgotten that runs, was opened here, or belongs to another client")
			}
			if gone(all[1]) != kept || gone(all[2]) != kept {
				t.Errorf("state kept elsewhere: %t, but forgotten: %t, %t", kept, gone(all[1]), gone(all[2]))
			}
			if !gone(all[3]) || gone(all[7]) {
				t.Errorf("not those were forgotten that were not used for longest: %t, %t", gone(all[3]), gone(all[7]))
			}
			runs.Done(wire.IDOf("1"), nil)
		})
	}
}
