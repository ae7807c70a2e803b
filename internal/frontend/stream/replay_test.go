package stream

import (
	"testing"

	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/wire"
)

func newTestLog() *MemoryLog { return NewMemoryLog(fairshare.New(1<<40, 0), 0) }

// All logs together are bounded, and so are those of one client. A log without room
// drops its own events first, and a closed log leaves its room to others.
func TestLogsShareTheirBudget(t *testing.T) {
	budget := fairshare.New(1000, 0)
	logs := make([]*MemoryLog, 6)
	kept := func(l *MemoryLog) int { return len(l.After("s", 0)) }
	for i := range logs {
		logs[i] = NewMemoryLog(budget, fairshare.Share(i/3)) // the first three belong to one client
		for n := range 3 {
			logs[i].Append("s", n+1, make([]byte, 100))
			if used := budget.Held(); used > 1000 {
				t.Fatalf("%d bytes are used", used)
			}
		}
	}
	for i, want := range []int{3, 2, 0, 2, 0, 0} {
		if got := kept(logs[i]); got != want {
			t.Errorf("log %d holds %d events, want %d", i, got, want)
		}
	}
	logs[0].Append("s", 4, make([]byte, 150)) // its client has less room since another has come
	if after := logs[0].After("s", 0); len(after) != 1 || len(after[0]) != 150 {
		t.Errorf("a log that makes room holds %d events", len(after))
	}
	for _, l := range logs[:5] {
		l.Close()
		l.Append("s", 5, make([]byte, 10))
	}
	if used := budget.Held(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
	logs[5].Append("s", 4, make([]byte, 500))
	if kept(logs[5]) != 1 {
		t.Error("the room of closed logs is not free")
	}
}

func TestLogIsBounded(t *testing.T) {
	l := newTestLog()
	for i := range 3 * MaxLogEvents {
		l.Append("s", i+1, make([]byte, i*7))
		if len(l.events) > MaxLogEvents || l.bytes > MaxLogBytes {
			t.Fatalf("%d events with %d bytes", len(l.events), l.bytes)
		}
	}
	sum := 0
	for _, data := range l.After("s", 0) {
		sum += len(data)
	}
	if sum != l.bytes {
		t.Errorf("the log counts %d bytes and has %d", l.bytes, sum)
	}
}

func TestReplayStoreIsBounded(t *testing.T) {
	rs := NewReplayStore(newTestLog())
	running := New(Options{})
	rs.Open(running, []wire.ID{wire.IDOf("1")}, false)
	running.release(running.conn, nil) // the client is gone, the call still runs
	for range 2 * maxUnused {
		st := New(Options{})
		rs.Open(st, []wire.ID{wire.IDOf("1")}, false)
		st.Finish([]byte("{}"))
		st.release(st.conn, nil)
	}
	if len(rs.streams) != maxUnused {
		t.Errorf("%d streams, want %d", len(rs.streams), maxUnused)
	}
	if got, err := rs.Find(Position{running.ID(), 1}); got != running || err != nil {
		t.Errorf("the stream of a running call was forgotten: %v", err)
	}
}

// A message that is sent between two connections waits for the client, if it can
// resume the stream. A connection that was replaced takes nothing with it.
func TestStreamBetweenConnections(t *testing.T) {
	rs := NewReplayStore(newTestLog())
	kept, lost := New(Options{}), New(Options{})
	first := rs.Open(kept, []wire.ID{wire.IDOf("1")}, false)
	second := kept.Connect()
	kept.release(first, nil)
	if !kept.IsConnected() {
		t.Error("the end of the old connection took the new one's stream")
	}
	kept.release(second, nil)
	if !kept.Send([]byte(`{}`)) {
		t.Error("the client could still fetch the message, but it was not taken")
	}
	lost.release(lost.Connect(), nil)
	if lost.Send([]byte(`{}`)) {
		t.Error("a message was taken that no client can get")
	}
}
