package connector

import (
	"sync"
	"sync/atomic"
	"time"
)

// breaker is the circuit breaker of one session. After some failed calls in a row it
// refuses calls, so that no call waits for a server that fails or hangs.
//
//	closed ── failures in a row ──▶ open ── after Open ──▶ half-open
//	   ▲                              ▲                        │
//	   └── any answer ────────────────┴── the next call fails ─┘
//
// The next call after Open is the trial; until it ends, or Open has passed again, other calls
// are refused. The state changes without a call too: it is for operators, who would else
// read for ever that calls fail at once if nobody calls the server any more.
//
// Only failures of the server count, see [failureOf]. Calls that fail together, such as all
// calls in flight when the server restarts, count once: except for a timeout, a failure
// counts if its call began after the last one. A timeout does not count if the server has
// answered another call meanwhile. Timeouts of one item alone, and failures of one
// principal alone that leave the conversation as it is, open the breaker only if the server
// leaves a ping unanswered too: one slow tool is no reason to refuse the others, and neither
// are the arguments of one client to refuse those of others. In a session of one principal
// all failures are alone; there the failures of another session show that the server fails,
// see [Health.failedFor].
//
// A call takes no lock while the breaker is closed and the last call did not fail. The
// methods may be called concurrently.
type breaker struct {
	health  *Health
	metrics *Metrics
	name    string // of the upstream
	own     bool   // all calls of the session are of one principal

	answers  atomic.Uint64 // counts the calls that the server answered
	alerted  atomic.Bool   // there is a run of failures, or the breaker is not closed
	mu       sync.Mutex
	state    breakerState
	failures failureRun
	opened   time.Time   // when it opened after it was closed
	until    time.Time   // when the next call may be a trial
	timer    *time.Timer // ends the state open at that time; nil before the first
	ended    bool        // the connector has ended
}

// breakerState is the state of a breaker.
type breakerState uint8

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerHalfOpen // the next call is a trial, or one runs
)

// String returns the name of the state in metrics and logs.
func (s breakerState) String() string {
	return [...]string{breakerClosed: "closed", breakerOpen: "open", breakerHalfOpen: "half-open"}[s]
}

// failure is how a call failed, as far as a breaker is concerned.
type failure uint8

const (
	// notFailed: the failure says nothing about the server.
	notFailed failure = iota
	// unreached: the server did not get the call.
	unreached
	// timedOut: the server neither answered nor sent progress in time.
	timedOut
	// broken: the server sent something else than an answer, or broke off the connection of
	// this call.
	broken
	// lost: the conversation ended with the call.
	lost
)

// failedCall is a call that failed.
type failedCall struct {
	how       failure
	item      string // what the call uses
	principal string // the key of the caller
	reason    string // for clients
	detail    string // for operators, "" if reason says everything, see [Connector.detail]
}

// mayBeItsOwn reports whether the call itself may be the reason of its failure.
func (f *failedCall) mayBeItsOwn() bool { return f.how == timedOut || f.how == broken }

// failureRun are the failed calls since the last answer.
type failureRun struct {
	calls  int
	since  time.Time // when the first one failed
	last   time.Time // when the last one failed
	reason string    // of the last one, and its detail for operators
	detail string
	// slow says that all of them timed out in the same item, item.
	slow bool
	item string
	// lone says that all of them are of the same principal and may be their own reason.
	lone      bool
	principal string
	// unsent says that the server got none of them, so that a new conversation shows that
	// it is back.
	unsent bool
	// pinging says that a ping decides whether the breaker opens.
	pinging bool
}

// add counts a failure.
func (r *failureRun) add(f *failedCall, now time.Time) {
	if r.calls == 0 {
		*r = failureRun{since: now, slow: true, item: f.item, lone: true, principal: f.principal, unsent: true}
	}
	r.calls++
	r.last, r.reason, r.detail = now, f.reason, f.detail
	r.slow = r.slow && f.how == timedOut && f.item == r.item
	r.lone = r.lone && f.mayBeItsOwn() && f.principal == r.principal
	r.unsent = r.unsent && f.how == unreached
}

// isDoubtful reports whether the server may be fine for other calls.
func (r *failureRun) isDoubtful() bool { return r.slow || r.lone }

// admission is what a breaker knows of one call.
type admission struct {
	began   time.Time
	answers uint64 // counted at that time
	trial   bool   // the call decides whether the breaker closes
	works   bool   // the server has answered the ping before the trial as it should
}

// openBreaker is the error of a call that a breaker refuses.
type openBreaker struct {
	reason string // for clients
	detail string // for operators, "" if reason says everything
	since  time.Time
	retry  time.Duration // when the next call is let through
}

func (e *openBreaker) Error() string { return e.reason }

// admit decides whether a call may be sent. The caller reports the outcome of an admitted
// call with answered, failed or skipped.
func (b *breaker) admit(now time.Time) (admission, *openBreaker) {
	a := admission{began: now, answers: b.answers.Load()}
	if !b.alerted.Load() {
		return a, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	limits := b.health.settings()
	switch {
	case limits.Failures == 0:
		b.close()
		return a, nil
	case b.state == breakerClosed:
		return a, nil
	case now.Before(b.until):
		return a, b.refusal(now)
	}
	b.become(breakerHalfOpen)
	b.until = now.Add(limits.Open) // a trial that takes longer does not keep others waiting
	a.trial = true
	return a, nil
}

// refuses reports whether a call would be refused now.
func (b *breaker) refuses(now time.Time) bool {
	if !b.alerted.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state != breakerClosed && b.health.settings().Failures > 0 && now.Before(b.until)
}

// refusal returns the error of a refused call. The caller holds mu.
func (b *breaker) refusal(now time.Time) *openBreaker {
	retry := b.until.Sub(now)
	if b.state == breakerHalfOpen {
		retry = min(retry, time.Second) // the trial may end at any moment
	}
	why := "the circuit breaker is open after " + agree(b.failures.calls, "failed call", "failed calls in a row") + "; the last error: "
	refused := &openBreaker{reason: why + b.failures.reason, since: b.failures.since, retry: retry}
	if b.failures.detail != "" {
		refused.detail = why + b.failures.detail
	}
	return refused
}

// answered says that the server has answered a call, with a result or an error, or that it
// is alive for certain. It reports whether the breaker was not closed.
func (b *breaker) answered() (closed bool) {
	b.answers.Add(1)
	b.health.works()
	if !b.alerted.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.close()
}

// skipped says that the outcome of a call says nothing about the server. If the call was
// the trial, the next call is one.
func (b *breaker) skipped(a admission) {
	if !a.trial {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == breakerHalfOpen {
		b.until = time.Time{}
	}
}

// verdict says what follows from a failure.
type verdict uint8

const (
	noVerdict verdict = iota
	opened            // the breaker has opened
	reopened          // the trial has failed
	closed            // the trial has failed, and says nothing about the calls of others
	needsPing         // the breaker opens if the server does not answer a ping, see pinged
)

// failed says that a call failed.
func (b *breaker) failed(a admission, f *failedCall, now time.Time) verdict {
	limits := b.health.settings()
	if limits.Failures == 0 {
		return noVerdict
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return noVerdict
	case a.trial && b.state == breakerHalfOpen:
		return b.failedTrial(a, f, now, limits)
	case b.state != breakerClosed, f.how == timedOut && b.answers.Load() != a.answers, f.how != timedOut && a.began.Before(b.failures.last):
		return noVerdict
	}
	b.alerted.Store(true)
	run := &b.failures
	run.add(f, now)
	switch {
	case run.calls < limits.Failures || run.isDoubtful() && run.pinging:
		return noVerdict
	case b.own && run.lone && !run.slow && b.health.failedFor(run.principal):
	case run.isDoubtful():
		run.pinging = true
		return needsPing
	}
	b.open(now, limits)
	return opened
}

// failedTrial opens the breaker again. If the server works, and all failures so far are of
// the principal of the trial, the breaker closes: its calls must not keep those of others
// out. It stays open if the server fails for other principals too, who have their own
// breakers. The caller holds mu.
func (b *breaker) failedTrial(a admission, f *failedCall, now time.Time, limits HealthSettings) verdict {
	run, own := &b.failures, a.works && f.mayBeItsOwn()
	if own && run.lone && run.principal == f.principal && !(b.own && b.health.failedFor(f.principal)) {
		b.close()
		b.alerted.Store(true)
		b.failures.add(f, now)
		return closed
	}
	run.reason, run.detail, run.lone, run.principal = f.reason, f.detail, own, f.principal
	b.open(now, limits)
	return reopened
}

// pinged takes the outcome of the ping after needsPing: whether the server has answered as it
// should. It reports whether the breaker has opened.
func (b *breaker) pinged(works bool, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state != breakerClosed || !b.failures.pinging:
		return false // another call has decided meanwhile
	case works:
		b.close()
		return false
	}
	b.failures.pinging = false
	b.open(now, b.health.settings())
	return true
}

// connected says that a new conversation has begun, and whether it is at another address. It
// reports whether that closed the breaker: it does at another address, and if none of the
// failed calls was sent. A server that ends or hangs in each call has to answer a call.
func (b *breaker) connected(moved bool) (closed bool) {
	if !b.alerted.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return (moved || b.failures.unsent) && b.close()
}

// close forgets all failures, and reports whether the breaker was not closed. The caller
// holds mu.
func (b *breaker) close() bool {
	before := b.state
	if b.timer != nil {
		b.timer.Stop()
	}
	b.become(breakerClosed)
	b.failures = failureRun{}
	b.alerted.Store(false)
	return before != breakerClosed
}

// open opens the breaker. The caller holds mu.
func (b *breaker) open(now time.Time, limits HealthSettings) {
	if b.state == breakerClosed {
		b.opened = now
	}
	b.become(breakerOpen)
	b.until = now.Add(limits.Open)
	if b.timer == nil {
		b.timer = time.AfterFunc(limits.Open, b.halfOpen)
	} else {
		b.timer.Reset(limits.Open)
	}
}

// halfOpen ends the state open after its time, if no call has done that.
func (b *breaker) halfOpen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == breakerOpen && !time.Now().Before(b.until) { // else it has opened again meanwhile
		b.become(breakerHalfOpen)
	}
}

// become changes the state. The caller holds mu.
func (b *breaker) become(next breakerState) {
	if before := b.state; before != next {
		b.state = next
		b.metrics.breaker(b.name, before, next)
		b.health.changed(b, next, b.opened)
	}
}

// end closes the breaker for good.
func (b *breaker) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.close()
}
