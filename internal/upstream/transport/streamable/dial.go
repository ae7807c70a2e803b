package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// dialer opens conversations with a server over streamable HTTP. It detects the era that
// is not configured in this order (2026-07-28, basic/transports/streamable-http,
// "Backward Compatibility"):
//
//	POST server/discover ──▶ a result that lists a modern revision,
//	        │                or a modern error that does              ──▶ modern
//	        │ any other answer, or an HTTP status 4xx
//	        ▼
//	POST initialize ──────▶ a result                                 ──▶ legacy
//	        │ HTTP status 400, 404 or 405
//	        ▼
//	fallback, if there is one
//
// A status that asks for credentials, 429, 5xx and failures of the network end the search
// without a result: they say nothing about the revisions of the server.
type dialer struct {
	o        *protocol.Config
	http     *httpconn.Config
	calls    int                  // at the same time
	tools    httpconn.ToolHeaders // may be nil
	fallback httpconn.Opener      // may be nil
}

// New returns a dialer for a server that speaks streamable HTTP. concurrent is the number
// of calls at the same time. fallback opens the conversation if the server refuses
// initialize as servers of another transport do; nil: no other transport is tried. tools
// may be nil.
func New(c *protocol.Config, http *httpconn.Config, concurrent int, tools httpconn.ToolHeaders, fallback httpconn.Opener) protocol.Dialer {
	return &dialer{o: c, http: http, calls: concurrent, tools: tools, fallback: fallback}
}

// probeShare is the share of the time for dialing that a server has to answer
// server/discover: some old servers send nothing before initialize.
const probeShare = 3

// Dial implements [protocol.Dialer].
func (d *dialer) Dial(ctx context.Context, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	p := httpconn.NewPool(d.http, d.calls)
	c, h, err := d.detect(ctx, p, in)
	if err != nil {
		p.Close()
		return nil, protocol.Hello{}, err
	}
	return c, h, nil
}

// detect opens a conversation in the configured era, or in that of the server. On errors
// the caller closes the pool.
func (d *dialer) detect(ctx context.Context, p *httpconn.Pool, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	switch {
	case d.o.Era == wire.EraLegacy:
		return d.legacy(ctx, p, in)
	case d.o.Era == wire.EraModern:
		c, h, err := d.modern(ctx, p, in)
		if errors.Is(err, errNotModern) {
			err = &protocol.CallError{Reason: "the server does not speak a modern revision, as its configuration says", NotSent: true, Cause: err}
		}
		return c, h, httpconn.FinalError(err)
	}
	if d.o.Memory.Era() == wire.EraLegacy {
		c, h, err := d.legacy(ctx, p, in)
		if err == nil || !refusedByServer(err) {
			return c, h, err
		}
		// The server has changed.
	}
	c, h, err := d.modern(ctx, p, in)
	if err == nil {
		d.o.Memory.Remember(wire.EraModern)
		return c, h, nil
	}
	if !errors.Is(err, errNotModern) {
		return nil, protocol.Hello{}, httpconn.FinalError(err)
	}
	c, h, err = d.legacy(ctx, p, in)
	if err == nil {
		d.o.Memory.Remember(wire.EraLegacy)
	}
	return c, h, err
}

// errNotModern means that a server has shown no sign of the modern era.
var errNotModern = errors.New("no modern answer to server/discover")

// modern opens a modern conversation. The error wraps errNotModern if the server may be
// of the legacy era, and is otherwise one of those of [modernConn.discover].
func (d *dialer) modern(ctx context.Context, p *httpconn.Pool, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	m := newModern(httpconn.NewConn(d.o, d.http, p, in), d.tools)
	h, listed, err := d.probe(ctx, m)
	if r := protocolError(err); r != nil && r.Code == wire.CodeUnsupportedRev {
		listed = protocol.SupportedBy(r)
		if next := protocol.Newest(wire.EraModern, listed); next != "" && next != wire.LatestModern {
			m.setRevision(next)
			h, _, err = d.probe(ctx, m)
		}
	}
	switch known := protocol.Newest(wire.EraModern, listed); {
	case err != nil && (len(listed) == 0 || known != ""):
		return nil, protocol.Hello{}, err
	case known == "" && protocol.Newest(wire.EraLegacy, listed) != "":
		return nil, protocol.Hello{}, fmt.Errorf("%w: the server lists %v", errNotModern, listed)
	case known == "":
		return nil, protocol.Hello{}, &protocol.CallError{Reason: fmt.Sprintf("the server speaks only revisions that the gateway does not know: %.200v", listed), NotSent: true}
	}
	m.listener.Lists = protocol.ListFilter(h.Capabilities)
	if d.o.Era == wire.EraUnknown && protocol.Newest(wire.EraLegacy, listed) != "" {
		return newDual(m, d.o, d.http), h, nil
	}
	return m, h, nil
}

// probe sends server/discover. If the era is not configured, a timeout and a response
// without information have the error errNotModern.
func (d *dialer) probe(ctx context.Context, m *modernConn) (protocol.Hello, []wire.Revision, error) {
	probe := ctx
	if deadline, ok := ctx.Deadline(); ok && d.o.Era == wire.EraUnknown {
		var cancel context.CancelFunc
		probe, cancel = context.WithTimeout(ctx, time.Until(deadline)/probeShare)
		defer cancel()
	}
	h, listed, err := m.discover(probe)
	f, failed := errors.AsType[*protocol.CallError](err)
	switch {
	case err == nil:
		return h, listed, nil
	case failed && f.NoCredentials: // says nothing about the era
		return h, nil, err
	case ctx.Err() != nil:
		return h, nil, ctx.Err()
	case probe.Err() != nil:
		return h, nil, fmt.Errorf("%w: it came none in time", errNotModern)
	}
	if r := httpconn.StatusErrorOf(err); r != nil {
		if !r.IsModern() && legacyStatus(r.Status) {
			err = fmt.Errorf("%w: %w", errNotModern, err)
		}
		return h, nil, err
	}
	if failed {
		if d.o.Era == wire.EraUnknown && !f.ConnectionLost && !f.Unauthenticated {
			err = fmt.Errorf("%w: %w", errNotModern, err)
		}
	} else if e, ok := errors.AsType[*wire.Error](err); ok && !wire.IsModernCode(e.Code) {
		err = fmt.Errorf("%w: %w", errNotModern, err)
	}
	return h, nil, err
}

// legacyStatus reports whether this status of a response without a modern error, to a
// modern request, may come from a server of the legacy era.
func legacyStatus(status int) bool {
	return status >= 400 && status < 500 && !slices.Contains([]int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests,
	}, status)
}

// legacy opens a legacy conversation, with the fallback if the server refuses initialize
// as servers of another transport do.
func (d *dialer) legacy(ctx context.Context, p *httpconn.Pool, in protocol.NotificationSink) (protocol.Conn, protocol.Hello, error) {
	l, h, err := openLegacy(ctx, httpconn.NewConn(d.o, d.http, p, in))
	if err == nil {
		return l, h, nil
	}
	r := httpconn.StatusErrorOf(err)
	if r == nil || r.IsModern() || d.fallback == nil ||
		(r.Status != http.StatusBadRequest && r.Status != http.StatusNotFound && r.Status != http.StatusMethodNotAllowed) {
		return nil, protocol.Hello{}, httpconn.FinalError(err)
	}
	c, h, ferr := d.fallback(ctx, httpconn.NewConn(d.o, d.http, p, in))
	if ferr == nil {
		return c, h, nil
	}
	if ctx.Err() != nil {
		return nil, protocol.Hello{}, ctx.Err()
	}
	return nil, protocol.Hello{}, &protocol.CallError{Reason: fmt.Sprintf("the server refuses initialize (HTTP %d) and offers no HTTP+SSE stream", r.Status),
		NotSent: true, Cause: errors.Join(err, ferr)}
}

// refusedByServer reports whether the server sent the error, and not the network.
func refusedByServer(err error) bool {
	f, ok := errors.AsType[*protocol.CallError](err)
	return protocolError(err) != nil || ok && !f.ConnectionLost && !f.Unauthenticated
}
