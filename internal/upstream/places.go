package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// line is where the calls of one upstream wait for their turn, of all its
// sessions. It is fair to those whose calls they are: nobody holds more of it than
// is left for the others, and when it is full all the same, who holds most makes
// room for who holds less.
type line struct {
	mu   sync.Mutex
	max  int
	all  []*waiter // the youngest last
	held map[uint64]int
}

func newLine(max int) *line { return &line{max: max, held: make(map[uint64]int)} }

// waiter is one call that waits in a line.
type waiter struct {
	owner uint64
	in    *places
	turn  chan error // takes one: nil with a place, else why there is none
}

// places are what calls take and give back: there are only so many. The owners of
// the calls that wait for one get theirs in turns. Its methods may be called by
// many goroutines at once.
type places struct {
	line *line
	size int

	// All are guarded by the line's mutex.
	free    int       // below 0 when calls have gone on without one
	back    []*waiter // of calls that had a place before, which come first
	turns   []uint64  // owners that wait, the next one first
	waiting map[uint64][]*waiter
}

func newPlaces(size int, l *line) *places {
	return &places{line: l, size: size, free: size, waiting: make(map[uint64][]*waiter)}
}

// take takes a place for a call of this owner, and waits for one if need be, until
// ctx ends. The error is a *fault when no more calls may wait, or that of ctx.
func (p *places) take(ctx context.Context, owner uint64) error {
	l := p.line
	l.mu.Lock()
	if p.free > 0 {
		p.free--
		l.mu.Unlock()
		return nil
	}
	w := &waiter{owner: owner, in: p, turn: make(chan error, 1)}
	if err := p.join(w); err != nil {
		l.mu.Unlock()
		return err
	}
	l.mu.Unlock()
	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.drop(w) && <-w.turn == nil {
		p.pass() // it came too late
	}
	return ctx.Err()
}

// join lets a call wait, or says why it may not. The caller holds the mutex.
func (p *places) join(w *waiter) error {
	l := p.line
	share, all := l.held[w.owner]+1, len(l.all)+1
	if share+all > l.max+1 {
		most := l.greediest()
		if all <= l.max || most == nil || l.held[most.owner] <= share {
			return p.overloaded()
		}
		most.in.drop(most)
		most.turn <- most.in.overloaded()
	}
	l.all = append(l.all, w)
	l.held[w.owner]++
	if len(p.waiting[w.owner]) == 0 {
		p.turns = append(p.turns, w.owner)
	}
	p.waiting[w.owner] = append(p.waiting[w.owner], w)
	return nil
}

// greediest returns the youngest call of an owner that holds as much of the line as
// any, nil when nobody waits. The caller holds the mutex.
func (l *line) greediest() *waiter {
	var most *waiter
	for i := len(l.all) - 1; i >= 0; i-- {
		if w := l.all[i]; most == nil || l.held[w.owner] > l.held[most.owner] {
			most = w
		}
	}
	return most
}

func (p *places) overloaded() error {
	return &fault{reason: fmt.Sprintf("overloaded: %d calls run and %d wait", p.size-p.free, len(p.line.all)), unsent: true, later: overloaded}
}

// drop takes a call out of the line. It reports false when it is in no more. The
// caller holds the mutex.
func (p *places) drop(w *waiter) bool {
	l := p.line
	i := slices.Index(l.all, w)
	if i < 0 {
		return false
	}
	l.all = slices.Delete(l.all, i, i+1)
	if l.held[w.owner]--; l.held[w.owner] == 0 {
		delete(l.held, w.owner)
	}
	own := p.waiting[w.owner]
	if own = slices.DeleteFunc(own, func(o *waiter) bool { return o == w }); len(own) > 0 {
		p.waiting[w.owner] = own
		return true
	}
	delete(p.waiting, w.owner)
	p.turns = slices.DeleteFunc(p.turns, func(o uint64) bool { return o == w.owner })
	return true
}

// give gives a place back.
func (p *places) give() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.pass()
}

// pass gives a place to who is next. The caller holds the mutex.
func (p *places) pass() {
	switch {
	case p.free < 0:
		p.free++
	case len(p.back) > 0:
		w := p.back[0]
		p.back = slices.Delete(p.back, 0, 1)
		w.turn <- nil
	case len(p.turns) > 0:
		owner := p.turns[0]
		w := p.waiting[owner][0]
		p.drop(w)
		if len(p.waiting[owner]) > 0 { // behind all others
			p.turns = append(p.turns[1:], owner)
		}
		w.turn <- nil
	default:
		p.free++
	}
}

// patience is how long a call that was asked something waits for a place at most.
const patience = 5 * time.Second

// retake takes a place for a call that gave its own back, before all that have had
// none. When none becomes free within patience, or ctx ends, the call has one all
// the same, and others wait the longer: the server may do nothing else before this
// call goes on.
func (p *places) retake(ctx context.Context) {
	l := p.line
	l.mu.Lock()
	if p.free > 0 {
		p.free--
		l.mu.Unlock()
		return
	}
	w := &waiter{in: p, turn: make(chan error, 1)}
	p.back = append(p.back, w)
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.turn:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(p.back, w); i >= 0 {
		p.back = slices.Delete(p.back, i, i+1)
		p.free--
	}
}
