package inspect

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func all(*Call) bool { return true }

// Calls are kept only while somebody looks.
func TestCallLog(t *testing.T) {
	var l CallLog
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l.Add(Call{Request: "before"})
	if l.Watching() {
		t.Error("calls are taken although nobody has looked")
	}
	if got := l.Look(now, 10, all); len(got.Calls) != 0 || !l.Watching() {
		t.Errorf("%+v, watching %v", got, l.Watching())
	}
	for i := range callsKept + 10 {
		l.Add(Call{Request: fmt.Sprint(i), At: now.Add(time.Duration(i) * time.Millisecond), Outcome: "ok"})
	}
	got := l.Look(now, 2, all)
	if len(got.Calls) != 2 || got.Calls[0].Request != fmt.Sprint(callsKept+9) || got.Calls[1].Request != fmt.Sprint(callsKept+8) || got.Added != callsKept+10 {
		t.Errorf("%+v", got)
	}
	if got := l.Look(now, callsKept+100, all).Calls; len(got) != callsKept || got[len(got)-1].Request != "10" {
		t.Errorf("%d calls, the oldest %s", len(got), got[len(got)-1].Request)
	}
	l.Expire(now.Add(watchFor))
	if !l.Watching() {
		t.Error("calls are forgotten too early")
	}
	l.Expire(now.Add(watchFor + 1))
	if l.Watching() || len(l.Look(now, 10, all).Calls) != 0 {
		t.Error("calls are kept although nobody looks")
	}
}

// Calls that come too fast are counted, and a call never waits for another.
func TestCallLogIsBounded(t *testing.T) {
	var l CallLog
	at := time.Unix(1000, 0)
	l.Look(at, 1, all)
	for range callsPerSecond + 5 {
		l.Add(Call{At: at})
	}
	if got := l.Look(at, 1, all); got.Missed != 5 || got.Added != callsPerSecond {
		t.Errorf("added %d, missed %d", got.Added, got.Missed)
	}
	l.mu.Lock()
	l.Add(Call{At: at})
	l.mu.Unlock()
	if got := l.Look(at, 1, all); got.Missed != 6 {
		t.Errorf("missed %d", got.Missed)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 100 {
				l.Add(Call{At: at.Add(time.Hour)})
				if i%10 == 0 {
					l.Look(at, 5, all)
				}
			}
		})
	}
	group.Wait()
	if got := l.Look(at, 1, all); got.Added+got.Missed != callsPerSecond+6+400 {
		t.Errorf("%+v", got)
	}
}
