package upstream

import (
	"context"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// conn is one conversation with an upstream server, in one era, over one
// transport.
//
// call may be used by many goroutines at once, as soon as dial has returned.
// run is called once; it serves what the server sends outside of calls, and
// returns the reason when the conversation is over: because ctx ended, or
// because the server is gone. It returns after every goroutine, process and
// connection of the conversation has ended. Calls in flight then fail.
type conn interface {
	// call sends one request and waits for its answer. Progress, log messages
	// and asks that belong to it go to c.Back. The params are those that the
	// server shall see but for the id, the progress token and the metadata of
	// the era, which the conn puts in. When ctx ends, the server is told in the
	// way of its era, and the error is that of ctx.
	//
	// The error is a *wire.Error that the server sent, a *fault for all that
	// went wrong on the way, or that of ctx.
	call(ctx context.Context, c *call.Call) (call.Result, error)
	run(ctx context.Context) error
}

// listener is a conn with a modern server. listen subscribes to updates of these
// resources in the place of those before, and returns the ones that the server
// has acknowledged. It is for one goroutine at a time, while run runs. On errors,
// which are those of call, everything stays as it was.
type listener interface {
	listen(ctx context.Context, uris []string) ([]string, error)
}

// dialer opens conversations with one configured server.
//
// dial returns when the server has said what it is: for legacy servers after
// initialize and notifications/initialized, for modern ones after
// server/discover. ctx bounds the dialing only. Notifications that belong to no
// call go to in from then on.
type dialer interface {
	dial(ctx context.Context, in inbox) (conn, hello, error)
}

// inbox takes the notifications of a server that belong to no call: list
// changes, updates, log messages. Its methods must not block.
type inbox interface {
	notified(method string, params wire.Raw)
	// renewed says that the server has forgotten what it was told once for the
	// whole conversation: subscriptions to resources, and the log level.
	renewed()
	// missed says that for a while the server could tell nobody of what belongs to
	// no call, and does not say it again.
	missed()
}

// hello is what a server said of itself.
type hello struct {
	revision     wire.Revision
	info         wire.Raw // serverInfo, nil when it gave none
	capabilities wire.Raw // an object
	instructions string
	via          string // see MetaVia
}

// fault is a call that failed on its way: the server down, slow, overloaded or
// talking nonsense. reason is for the client: it holds no secret and no
// internal address.
type fault struct {
	reason string
	// unsent says that the server has certainly not begun the call, so that it
	// may be sent again.
	unsent bool
	// lost says that the connection broke before the answer came, over that the
	// whole conversation ended with it. Over streamable HTTP one does not mean
	// the other.
	lost, over bool
	// spent says that the server ended with the call in its hands, and may have
	// ended because of it: whoever sends it again may end it again.
	spent bool
	// unproven says that there is nothing that proves to the server who calls, so
	// that sending the call again would fail again.
	unproven bool
	// later is after how long sending the call again makes sense, 0: not known.
	later time.Duration
	cause error // for the log, may be nil
}

func (f *fault) Error() string {
	if f.cause != nil && f.cause.Error() != f.reason {
		return f.reason + ": " + f.cause.Error()
	}
	return f.reason
}

// laterOf returns what a fault says of when to send the call again.
func laterOf(err error) time.Duration {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.later
	}
	return 0
}

func (f *fault) Unwrap() error { return f.cause }

// result makes the result of a call out of the server's answer, whatever it came
// on. A result that is no object is no answer: all revisions demand one, and
// whoever gets it would look for members (2025-11-25 and 2026-07-28, schema,
// "Result").
func result(m wire.Message, rev wire.Revision) (call.Result, error) {
	if m.Error != nil {
		return call.Result{}, m.Error
	}
	if wire.ValueOf(m.Result).Kind() != '{' {
		return call.Result{}, &fault{reason: "the result in the server's answer is no object"}
	}
	return call.Result{Raw: m.Result, Revision: rev, Extra: m.Extra}, nil
}
