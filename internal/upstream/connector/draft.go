package connector

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// draft remembers whether the server of a conversation knows resources/metadata
// (SEP-2093), which no revision has and no server declares. The first such request in
// each conversation shows it. The zero draft is ready for use. It may be used
// concurrently.
type draft struct{ known atomic.Pointer[draftFact] }

type draftFact struct {
	conn  protocol.Conn
	knows bool
}

// of returns what is known about a conversation, nil when nothing is.
func (d *draft) of(c protocol.Conn) *draftFact {
	if f := d.known.Load(); f != nil && f.conn == c {
		return f
	}
	return nil
}

// call sends a call in a conversation. A server that does not know
// resources/metadata is not asked again. The list of one collection is only for a
// server that is known to know it: others take no notice of the member uri and
// list everything.
func (d *draft) call(ctx context.Context, c protocol.Conn, cl *call.Call) (call.Result, error) {
	switch m := wire.MethodOf(cl.Method); {
	case m.Kind == wire.KindMetadata:
		return d.metadata(ctx, c, cl)
	case m.Kind == wire.KindList && m.MemberOptional:
		if f := d.of(c); f == nil || !f.knows {
			return call.Result{}, unknownMethod(cl.Method)
		}
	}
	return c.Call(ctx, cl)
}

// metadata sends resources/metadata.
func (d *draft) metadata(ctx context.Context, c protocol.Conn, cl *call.Call) (call.Result, error) {
	if f := d.of(c); f != nil && !f.knows {
		return call.Result{}, unknownMethod(cl.Method)
	}
	result, err := c.Call(ctx, cl)
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		h, ok := errors.AsType[diagnose.HTTPError](f.Cause)
		if ok && (h.StatusCode() == http.StatusBadRequest || h.StatusCode() == http.StatusNotFound) {
			err = unknownMethod(cl.Method) // servers made with the Go SDK answer 400, without a JSON-RPC error
		}
	}
	d.learn(c, result, err)
	return result, err
}

// learn takes in how the server answered resources/metadata. An error other than
// that it has no such method says nothing: the resource may be missing. A server
// that has answered once has the method, whatever it says later.
func (d *draft) learn(c protocol.Conn, result call.Result, err error) {
	if refusal, ok := errors.AsType[*wire.Error](err); ok && refusal.Code == wire.CodeMethodNotFound && d.of(c) == nil {
		d.known.Store(&draftFact{c, false})
	}
	if err == nil && wire.ValueOf(result.Raw).Get("resource").Kind() == '{' {
		d.known.Store(&draftFact{c, true})
	}
}

func unknownMethod(method string) *wire.Error {
	return wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", method)
}
