package session

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

func testTable(max int, idle time.Duration) (*Table, prometheus.Gauge) {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sessions"})
	return NewTable(TableOptions{Max: max, Idle: idle, Gauge: gauge, Ended: func(string) {}, LogLevel: func(wire.Level) {}}), gauge
}

// open opens a session that counts for a share.
func open(t *Table, id string, share fairshare.Share) (*Session, error) {
	c := testConfig(id)
	c.Counted, c.Share = true, share
	return t.Open(c)
}

// A full table makes room when a session has expired, even before Expire is called.
func TestFullTableExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := testTable(1, time.Minute)
		first, err := open(table, "first", 1)
		if err != nil || table.Find("first") != first {
			t.Fatal("an empty table has no room")
		}
		if _, err := open(table, "second", 2); err != fairshare.ErrExhausted {
			t.Errorf("another client in a full table: %v", err)
		}
		if _, err := open(table, "second", 1); err != fairshare.ErrShareExceeded {
			t.Errorf("the same client in a full table: %v", err)
		}
		time.Sleep(time.Minute + 1)
		if _, err := open(table, "third", 2); err != nil {
			t.Errorf("an expired session made no room: %v", err)
		}
		if table.Find("first") != nil {
			t.Error("an expired session is still there")
		}
	})
}

// One client cannot have all sessions, and later clients still get some.
func TestSessionsAreShared(t *testing.T) {
	table, gauge := testTable(100, time.Hour)
	have := map[fairshare.Share][]*Session{}
	for _, share := range []fairshare.Share{1, 2, 3} {
		for {
			s, err := open(table, fmt.Sprintf("%d-%d", share, len(have[share])), share)
			if err == nil {
				have[share] = append(have[share], s)
				continue
			}
			if share == 1 && err != fairshare.ErrShareExceeded {
				t.Errorf("the first client gets %v, want %v", err, fairshare.ErrShareExceeded)
			}
			break
		}
	}
	if len(have[1]) != 50 || len(have[2]) != 25 || len(have[3]) != 13 {
		t.Errorf("of 100 sessions the first client has %d, the second %d, the third %d", len(have[1]), len(have[2]), len(have[3]))
	}
	if err := table.Reserve(4); err != nil { // an HTTP+SSE stream that has no session yet
		t.Error(err)
	}
	if got := testutil.ToFloat64(gauge); got != 50+25+13+1 {
		t.Errorf("the gauge is %v", got)
	}
	table.Release(4)
	for _, sessions := range have {
		for _, s := range sessions {
			table.Close(s, ErrEnded)
		}
	}
	if got, held := testutil.ToFloat64(gauge), table.slots.Held(); got != 0 || held != 0 {
		t.Errorf("after all sessions ended: gauge %v, %d slots", got, held)
	}
}

// A client that is refused again and again does not make the table look at all
// sessions each time.
func TestRefusalsDoNotScanTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := testTable(1, time.Minute)
		if _, err := open(table, "first", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, want := range []error{fairshare.ErrExhausted, fairshare.ErrExhausted, nil} { // expired after a minute and a bit
			if _, err := open(table, "next", 2); err != want {
				t.Errorf("got %v, want %v", err, want)
			}
			time.Sleep(expireAgain / 2)
		}
	})
}

// A session that is opened while the gateway stops has ended at once.
func TestOpenAfterCloseAll(t *testing.T) {
	table, gauge := testTable(1, time.Minute)
	table.CloseAll(errors.New("stopped"))
	s, err := open(table, "late", 1)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Ended():
	default:
		t.Error("the session has not ended")
	}
	if got := testutil.ToFloat64(gauge); got != 0 {
		t.Errorf("the gauge is %v", got)
	}
}
