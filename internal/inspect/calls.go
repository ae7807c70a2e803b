package inspect

import (
	"sync"
	"sync/atomic"
	"time"

	"mcpgateway/internal/call"
)

const (
	// callsKept is how many calls a CallLog keeps.
	callsKept = 2000
	// callsPerSecond bounds how many calls a CallLog takes in a second. The others are counted.
	callsPerSecond = 2000
	// watchFor is how long calls are taken after somebody has looked.
	watchFor = 15 * time.Minute
)

// CallLog keeps the last calls while somebody looks at them. A call never waits for it. The methods may be called
// concurrently.
type CallLog struct {
	watching atomic.Bool
	missed   atomic.Uint64

	mu     sync.Mutex
	began  time.Time // when calls were first taken
	until  time.Time
	ring   []Call
	next   int // the place of the next call in the full ring
	added  uint64
	second int64 // of the last call
	taken  int   // calls in that second
}

// Call is one call that has ended, as the log has it. It has no argument and no result.
type Call struct {
	At                                    time.Time // when it began
	Duration                              time.Duration
	Request, Method, Item, Upstream, Rule string
	Outcome, Reason, Principal, Issuer    string
	Profile, Client, Remote, Trace        string
	Own                                   bool // of one of the gateway's own tools
	Stages                                []StageTime
}

// StageTime is the time that a call has spent in one stage.
type StageTime struct {
	Stage string
	Spent time.Duration
}

// Failed reports whether the outcome is one that somebody may want to look at.
func (c *Call) Failed() bool {
	switch c.Outcome {
	case "ok", "input_required", "task":
		return false
	}
	return true
}

// Watching reports whether calls are taken. It costs one read.
func (l *CallLog) Watching() bool { return l.watching.Load() }

// Add takes a call, unless another one is being taken or there are too many in this second.
func (l *CallLog) Add(c Call) {
	if !l.mu.TryLock() {
		l.missed.Add(1)
		return
	}
	defer l.mu.Unlock()
	if l.until.IsZero() {
		return // nobody looks any more
	}
	if second := c.At.Add(c.Duration).Unix(); second != l.second {
		l.second, l.taken = second, 0
	}
	if l.taken++; l.taken > callsPerSecond {
		l.missed.Add(1)
		return
	}
	l.added++
	if len(l.ring) < callsKept {
		l.ring = append(l.ring, c)
		return
	}
	l.ring[l.next] = c
	l.next = (l.next + 1) % callsKept
}

// Stages returns the times of the stages that a call has passed.
func Stages(t *call.Trace) (all []StageTime) {
	for s := range call.NumStages {
		if spent := t.Spent(s); spent > 0 {
			all = append(all, StageTime{s.String(), spent})
		}
	}
	return all
}

// CallsTaken is what a CallLog has.
type CallsTaken struct {
	Calls  []Call // the newest first
	Added  uint64 // since Began
	Missed uint64
	Began  time.Time
}

// Look returns the calls that keep selects, at most limit of them, the newest first. From now on calls are taken.
func (l *CallLog) Look(now time.Time, limit int, keep func(*Call) bool) CallsTaken {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.IsZero() {
		l.began = now
	}
	l.until = now.Add(watchFor)
	l.watching.Store(true)
	out := CallsTaken{Added: l.added, Missed: l.missed.Load(), Began: l.began}
	for i := range l.ring {
		c := &l.ring[(l.next+len(l.ring)-1-i)%len(l.ring)]
		if len(out.Calls) == limit {
			break
		}
		if keep(c) {
			out.Calls = append(out.Calls, *c)
		}
	}
	return out
}

// Expire forgets all calls if nobody has looked for a while. Somebody has to call it now and then.
func (l *CallLog) Expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.until.IsZero() && now.After(l.until) {
		l.watching.Store(false)
		l.ring, l.next, l.added, l.until = nil, 0, 0, time.Time{}
		l.missed.Store(0)
	}
}
