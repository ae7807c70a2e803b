package connector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Causes with which a callGuard ends the context of its call.
var (
	errSilent      = errors.New("neither an answer nor progress in time")
	errMaxDuration = errors.New("the call took longer than it may")
)

// callGuard stands between a conversation and the back channel of one call. It keeps
// the promises of [call.BackChannel], whatever the server does: nothing passes after
// the call has ended, and no log message that the client did not want. It also holds
// the clocks of the call: progress restarts the time of silence, and while an ask is
// open only the maximum duration runs.
type callGuard struct {
	c     *Connector // is told of what the call shows of the server; nil in tests
	trial bool       // the call decides whether the breaker closes
	// serverWorks says that the server has answered the ping before the trial as it should.
	serverWorks bool
	back        call.BackChannel
	level       wire.Level

	// Scope is the context of the call. The clocks end it with the cause errSilent or
	// errMaxDuration.
	call.Scope
	maxSilence time.Duration
	end        time.Time
	timer      *time.Timer

	mu       sync.Mutex    // held while Notify runs, so that close can wait for it
	notes    *rate.Limiter // of notifications, nil before the first one
	limiter  *fairLimiter  // the limiter of the call's slot, nil before the first one
	hasSlot  bool          // the call has a slot now
	waited   time.Duration // for slots, since the clock of silence was started
	connects time.Duration // the wait for connections, since the same time
	queue    *fairLimiter  // the limiter of the last of these waits, nil for none
	closed   bool
	openAsks int       // asks
	span     call.Span // of the last attempt, nil if calls are not traced
	asks     sync.WaitGroup
}

// newCallGuard starts the clocks of a call. The caller closes the guard.
func newCallGuard(ctx context.Context, c *call.Call, quiet, longest time.Duration) *callGuard {
	g := &callGuard{back: c.Back, level: c.LogLevel, maxSilence: quiet, end: time.Now().Add(longest)}
	g.Begin(ctx)
	g.timer = time.AfterFunc(min(quiet, longest), g.expire)
	return g
}

// holdSlot says that the call has a slot of the limiter. The guard releases the slot
// when the call ends, and while the client is asked: a call that waits for a person
// must not keep others waiting. It takes a slot again before the server gets the
// answer.
func (g *callGuard) holdSlot(slots *fairLimiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limiter, g.hasSlot = slots, true
}

// releaseSlot gives the slot back, if the call has one. The caller holds mu.
func (g *callGuard) releaseSlot() {
	if g.hasSlot {
		g.limiter.release()
		g.hasSlot = false
	}
}

// reacquireSlot takes a slot again when the last open ask has been answered.
func (g *callGuard) reacquireSlot() {
	g.mu.Lock()
	needs := g.limiter != nil && !g.hasSlot && !g.closed && g.openAsks == 0
	g.mu.Unlock()
	if !needs {
		return
	}
	began := time.Now()
	g.limiter.reacquire(&g.Scope)
	g.queued(g.limiter, began)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.hasSlot || g.openAsks > 0 { // the call has ended meanwhile, or asked again
		g.limiter.release()
		return
	}
	g.hasSlot = true
}

func (g *callGuard) expire() {
	if !time.Now().Before(g.end) {
		g.Cancel(errMaxDuration)
		return
	}
	g.Cancel(errSilent)
}

// queued notes that the call has waited for a slot since began.
func (g *callGuard) queued(p *fairLimiter, began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waited += time.Since(began)
	g.queue = p
}

// connected notes that the call has waited for a connection since began.
func (g *callGuard) connected(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.connects += time.Since(began)
}

// silence says that the time of silence is over, and which part of it the call waited for a slot and for a connection:
// the server did not have the call then.
func (g *callGuard) silence() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	waited, connects := g.waited.Round(100*time.Millisecond), g.connects.Round(100*time.Millisecond)
	var waits []string
	if waited > 0 {
		waits = append(waits, fmt.Sprintf("%s in the queue (%s)", waited, g.queue.bound))
	}
	if connects > 0 {
		waits = append(waits, fmt.Sprintf("%s for the connection with the server", connects))
	}
	if len(waits) == 0 {
		return fmt.Sprintf("the server did not answer within %s", g.maxSilence)
	}
	left := g.maxSilence - waited - connects
	if left <= 0 {
		return fmt.Sprintf("the call waited %s, which is all of the timeout of %s", strings.Join(waits, " and "), g.maxSilence)
	}
	return fmt.Sprintf("the call waited %s, and the server did not answer within the %s that were left of the timeout of %s",
		strings.Join(waits, " and "), left, g.maxSilence)
}

// restart resets the timer. The caller holds mu.
func (g *callGuard) restart() {
	g.waited, g.connects = 0, 0
	left := time.Until(g.end)
	if g.openAsks == 0 {
		left = min(left, g.maxSilence)
	}
	g.timer.Reset(left)
}

// close ends the context of the call and its open asks. It returns when the call does
// not use the client's back channel anymore.
func (g *callGuard) close() {
	g.mu.Lock()
	g.closed = true
	g.releaseSlot()
	g.timer.Stop()
	g.mu.Unlock()
	g.Cancel(context.Canceled)
	g.asks.Wait()
}

// setSpan sets the span of the attempt that begins. Spans of asks are below it.
func (g *callGuard) setSpan(span call.Span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.span = span
}

// Notify implements [call.BackChannel].
func (g *callGuard) Notify(method string, params wire.Raw) {
	if method == wire.NoteMessage && !protocol.WantsLog(g.level, params) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if method == wire.NoteProgress {
		g.restart()
		g.showAlive()
	}
	if g.notes == nil {
		g.notes = rate.NewLimiter(callNotesPerSecond, callNotesBurst)
	}
	if g.notes.Allow() {
		g.back.Notify(method, params)
	} else if g.c != nil {
		g.c.exceeded(excessOf(method))
	}
}

// Ask implements [call.BackChannel]. It ends with the call.
func (g *callGuard) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, context.Canceled
	}
	g.openAsks++
	g.showAlive()
	g.releaseSlot()
	g.restart()
	g.asks.Add(1)
	span := g.span
	g.mu.Unlock()
	defer g.asks.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(&g.Scope, cancel)()
	result, err := g.back.Ask(call.ContextWithSpan(ctx, span), method, params)

	g.mu.Lock()
	g.openAsks--
	if !g.closed {
		g.restart()
	}
	g.mu.Unlock()
	g.reacquireSlot()
	return result, err
}

// showAlive says that the server works on the call.
func (g *callGuard) showAlive() {
	if g.trial {
		g.c.noteAnswer()
	}
}

// IsAsking reports whether a request of the server waits for the client.
func (g *callGuard) IsAsking() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openAsks > 0
}
