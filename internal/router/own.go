package router

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// OwnTools answers calls of the gateway's own items: tools that find and call other tools, and
// resources that the gateway keeps.
type OwnTools interface {
	// Call answers a call of an own item: tools/call, prompts/get or resources/read. view is
	// what the caller sees. inner runs another call as if the client had sent it now, through
	// all stages: rights, confirmation, limits, asks, progress, tasks, audit and metrics under
	// the name of that item. Its principal and its client must be those of c. Pass on c.Back, or
	// a BackChannel around it. inner may be called concurrently, until Call returns.
	//
	// A result that inner returned may be returned as it is. The errors are a *wire.Error,
	// call.ErrNoItem for a resource that does not exist, or that of ctx.
	Call(ctx context.Context, c *call.Call, target catalog.Target, view *catalog.View, inner func(context.Context, *call.Call) (call.Result, error)) (call.Result, error)
}

// maxOwnDepth bounds how many calls of own items may be inside of each other.
const maxOwnDepth = 4

// own answers calls of the gateway's own items.
func (f *forwarding) own(ctx context.Context) (bool, error) {
	if !f.target.Part.Own() {
		return false, nil
	}
	f.log.own, f.log.item = true, plaintext.Clip(f.target.Public, maxAuditItem)
	switch {
	case f.method.Kind != wire.KindCall:
		return false, wire.Errorf(wire.CodeMethodNotFound, "method not found: %q for items of the gateway itself", f.call.Method)
	case f.call.Depth >= maxOwnDepth:
		return false, wire.Errorf(wire.CodeInvalidParams, "the %s %q was called from inside of %d other calls; that is as deep as calls may be", f.target.Kind, clip(f.target.Public), maxOwnDepth)
	}
	view := f.view
	if e := f.target.Entry; e != nil && e.NeedsWholeView() {
		var err error
		if view, err = f.router.awaitView(ctx, f.call); err != nil {
			return false, err
		}
	}
	var calls atomic.Uint64
	f.used = new(usedItems)
	inner := func(ctx context.Context, c *call.Call) (call.Result, error) {
		d := struct {
			call.Call
			trace call.Trace
		}{Call: *c}
		d.trace.Parent, d.Trace = f.call.Trace.Span(), &d.trace
		d.ID = f.call.ID + "." + strconv.FormatUint(calls.Add(1), 10)
		d.Depth = f.call.Depth + 1
		d.TakesRounds = false // only the client's own request may end with a round
		res, log, err := f.router.serve(ctx, &d.Call)
		f.used.add(log.used)
		return res, err
	}
	var err error
	f.result, err = f.router.ownTools.Call(ctx, f.call, f.target, view, inner)
	if err != nil {
		if errors.Is(err, call.ErrNoItem) {
			err = f.notFound("the gateway keeps no such resource")
		}
		return true, err
	}
	return true, f.finishOwn()
}

// finishOwn passes the result of an own item through the result stages that it needs. An inner
// call has already passed the other stages, but the result may be too long.
func (f *forwarding) finishOwn() error {
	raw := f.result.Raw
	short, err := f.shorten(raw)
	if err == nil && (f.result.Revision == "" || !sameBytes(short, raw)) {
		short, err = f.downlevel(short)
	}
	f.result.Raw = short
	return err
}

// sameBytes reports whether two texts are the same memory.
func sameBytes(a, b wire.Raw) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
