package streamable

import (
	"context"
	"errors"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/httpconn"
	"mcpgateway/internal/wire"
)

// dualConn holds two conversations with a server that speaks both eras. The calls of a
// client go over the conversation of the client's era, so that nothing is translated. The
// modern one is open from the start and serves the gateway's own calls too. The first
// call of a legacy client opens the legacy one. If the server lists a legacy revision but
// refuses initialize, all calls are modern.
type dualConn struct {
	modern *modernConn
	o      *protocol.Config
	http   *httpconn.Config

	opening chan struct{}    // holds a token unless a goroutine opens the legacy conversation
	opened  chan *legacyConn // passes the legacy conversation to Run
	ended   chan struct{}    // closed when Run ends

	mu      sync.RWMutex
	legacy  *legacyConn // nil until it is open
	refused bool        // the server refuses initialize
}

func newDual(m *modernConn, o *protocol.Config, http *httpconn.Config) *dualConn {
	d := &dualConn{modern: m, o: o, http: http, opening: make(chan struct{}, 1), opened: make(chan *legacyConn), ended: make(chan struct{})}
	d.opening <- struct{}{}
	return d
}

// Call implements [protocol.Conn].
func (d *dualConn) Call(ctx context.Context, c *call.Call) (call.Result, error) {
	if c.Client == nil || c.Client.Era() != wire.EraLegacy {
		return d.modern.Call(ctx, c)
	}
	l, err := d.forLegacy(ctx)
	switch {
	case err != nil:
		return call.Result{}, err
	case l == nil:
		return d.modern.Call(ctx, c)
	}
	return l.Call(ctx, c)
}

// forLegacy returns the legacy conversation, which it opens if necessary, or nil if the
// server refuses initialize. The error is a *protocol.CallError, or that of ctx.
func (d *dualConn) forLegacy(ctx context.Context) (*legacyConn, error) {
	if l, settled := d.legacyKnown(); settled {
		return l, nil
	}
	select {
	case <-d.opening:
		defer func() { d.opening <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l, settled := d.legacyKnown(); settled {
		return l, nil
	}
	m := d.modern
	in := m.Sink
	if m.listener.HasLists() {
		in = silentLists{in}
	}
	l, _, err := openLegacy(ctx, httpconn.NewConn(d.o, d.http, m.Endpoint.Pool, in))
	if err != nil {
		err = httpconn.FinalError(err)
		if _, ok := errors.AsType[*wire.Error](err); !ok {
			return nil, err
		}
		m.Log.Warn("the server lists a legacy revision but refuses initialize", d.o.ErrorField(err))
		d.setLegacy(nil)
		return nil, nil
	}
	select {
	case d.opened <- l:
	case <-d.ended:
		return nil, &protocol.CallError{Reason: protocol.ReasonConnectionLost, NotSent: true, ConnectionLost: true, ConversationClosed: true}
	case <-ctx.Done():
		// Run has not begun yet. The next call opens another session.
		return nil, ctx.Err()
	}
	d.setLegacy(l)
	return l, nil
}

// Listen implements [protocol.Conn].
func (d *dualConn) Listen(ctx context.Context, uris []string) ([]string, error) {
	return d.modern.Listen(ctx, uris)
}

// Notify implements [protocol.Conn]. Sessions of legacy clients have conversations of
// their own.
func (d *dualConn) Notify(string) {}

// Probe implements [protocol.Conn].
func (d *dualConn) Probe(why protocol.Suspicion) {
	d.modern.ProbeWith(why, d.modern.probe)
	if l, _ := d.legacyKnown(); l != nil {
		l.Probe(why)
	}
}

// Ping implements [protocol.Conn].
func (d *dualConn) Ping(ctx context.Context) error { return d.modern.Ping(ctx) }

// Traits implements [protocol.Conn].
func (d *dualConn) Traits() protocol.Traits {
	traits := protocol.Traits{Sessions: protocol.SessionDual, Listens: true, Asks: true, HeaderParams: true}
	if l, settled := d.legacyKnown(); l != nil || !settled {
		traits.OpenLegacy = func(ctx context.Context) (bool, error) {
			l, err := d.forLegacy(ctx)
			return l != nil, err
		}
	}
	return traits
}

func (d *dualConn) legacyKnown() (*legacyConn, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.legacy, d.legacy != nil || d.refused
}

func (d *dualConn) setLegacy(l *legacyConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.legacy, d.refused = l, l == nil
}

// Run implements [protocol.Conn]. When one of the conversations ends, so does the other.
func (d *dualConn) Run(ctx context.Context) error {
	defer close(d.ended)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	modern, legacy := make(chan error, 1), make(chan error, 1)
	go func() { modern <- d.modern.serve(ctx) }()
	defer d.modern.Close()
	running := false
	for {
		select {
		case l := <-d.opened:
			running = true
			go func() { legacy <- l.serve(ctx) }()
			defer l.Close()
		case err := <-modern:
			stop()
			if running {
				<-legacy
			}
			return err
		case err := <-legacy:
			stop()
			<-modern
			return err
		}
	}
}

// silentLists drops changes of lists, which the modern conversation reports too.
type silentLists struct{ protocol.NotificationSink }

func (s silentLists) Notified(method string, params wire.Raw) {
	if wire.MethodOf(method).Kind != wire.KindListChanged {
		s.NotificationSink.Notified(method, params)
	}
}
