package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Why the context of a call ended before its client's did.
var (
	errQuiet   = errors.New("no answer and no progress in time")
	errTooLong = errors.New("the longest time that a call may take is over")
)

// gate stands between a conversation and the back channel of one call. It keeps
// the promises that a back channel demands, whatever a server does: nothing
// passes after the call has ended, and no log message that the client did not
// want. It also holds the call's clocks: progress begins the quiet time anew,
// and while an ask is open only the longest time of the call runs.
type gate struct {
	back  call.BackChannel
	level wire.Level

	// Scope is the context of the call. It ends with the clocks, too, with
	// errQuiet or errTooLong as the cause.
	call.Scope
	quiet time.Duration
	end   time.Time
	timer *time.Timer

	mu     sync.Mutex // held while Notify passes, so that close can wait for it
	slots  *places    // where the call has its place, nil before it has any
	holds  bool       // it has one now
	closed bool
	open   int // asks
	asks   sync.WaitGroup
}

// newGate starts the clocks of a call. The caller closes the gate.
func newGate(ctx context.Context, c *call.Call, quiet, longest time.Duration) *gate {
	g := &gate{back: c.Back, level: c.LogLevel, quiet: quiet, end: time.Now().Add(longest)}
	g.Begin(ctx)
	g.timer = time.AfterFunc(min(quiet, longest), g.expire)
	return g
}

// hold says that the call has taken a place of slots. It gives it back when the
// call ends, and while its client is asked something: who waits for a person must
// not keep others waiting. With the answer the call goes on, so that it needs a
// place again before the server gets that.
func (g *gate) hold(slots *places) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slots, g.holds = slots, true
}

// release gives the call's place back, if it has one. The caller holds mu.
func (g *gate) release() {
	if g.holds {
		g.slots.give()
		g.holds = false
	}
}

// rehold takes a place again when the last open question has been answered.
func (g *gate) rehold() {
	g.mu.Lock()
	needs := g.slots != nil && !g.holds && !g.closed && g.open == 0
	g.mu.Unlock()
	if !needs {
		return
	}
	g.slots.retake(&g.Scope)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.holds || g.open > 0 { // meanwhile it has ended, or asked again
		g.slots.give()
		return
	}
	g.holds = true
}

func (g *gate) expire() {
	if !time.Now().Before(g.end) {
		g.Cancel(errTooLong)
		return
	}
	g.Cancel(errQuiet)
}

// restart sets the timer anew. The caller holds mu.
func (g *gate) restart() {
	left := time.Until(g.end)
	if g.open == 0 {
		left = min(left, g.quiet)
	}
	g.timer.Reset(left)
}

// close ends the call's context and open asks, and returns when nothing of the
// call is in the client's back channel any more.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.release()
	g.timer.Stop()
	g.mu.Unlock()
	g.Cancel(context.Canceled)
	g.asks.Wait()
}

// Notify implements [call.BackChannel].
func (g *gate) Notify(method string, params wire.Raw) {
	if method == wire.NoteMessage && !wantsLog(g.level, params) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if method == wire.NoteProgress {
		g.restart()
	}
	g.back.Notify(method, params)
}

// wantsLog reports whether a log message is as grave as a call asked for. One
// with a level that nobody knows passes, where any pass.
func wantsLog(least wire.Level, params wire.Raw) bool {
	if least == wire.LevelNone {
		return false
	}
	level, known := wire.ParseLevel(wire.ValueOf(params).Get("level").Str())
	return !known || level >= least
}

// Ask implements [call.BackChannel]. It ends with the call, too.
func (g *gate) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, context.Canceled
	}
	g.open++
	g.release()
	g.restart()
	g.asks.Add(1)
	g.mu.Unlock()
	defer g.asks.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(&g.Scope, cancel)()
	result, err := g.back.Ask(ctx, method, params)

	g.mu.Lock()
	g.open--
	if !g.closed {
		g.restart()
	}
	g.mu.Unlock()
	g.rehold()
	return result, err
}
