package router

import (
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Watcher receives calls that have ended. Its methods may be called concurrently, and must not
// block.
type Watcher interface {
	// Watching reports whether calls are received now.
	Watching() bool
	// Ended receives a call. It must not keep the call or what it points to.
	Ended(*EndedCall)
}

// EndedCall is a call that has ended, as the log has it. It has no argument and no result.
type EndedCall struct {
	Call     *call.Call
	At       time.Time // when it began
	Duration time.Duration
	Method   string
	Upstream string // that has the item, whether or not it was reached; "" if none has
	Item     string // "" if the client may have written a part of its name
	Rule     string // that decided
	Outcome  string
	Reason   string // why it failed
	Own      bool   // a call of one of the gateway's own items, whose inner calls are received too
}

func (r *Router) watched() bool { return r.watcher != nil && r.watcher.Watching() }

// watch hands a call to the watcher.
func (r *Router) watch(c *call.Call, log *logFields, begin time.Time, duration time.Duration, res wire.Raw, err error) {
	outcome := log.outcomeOf(c, res, err)
	r.watcher.Ended(&EndedCall{
		Call: c, At: begin, Duration: duration, Method: labelOf(c), Upstream: log.named(), Item: log.item, Rule: log.rule,
		Outcome: outcome, Reason: r.reasonOf(outcome, c, log, err), Own: log.own,
	})
}
