package line

import (
	"context"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// subscribe sends the request for one subscription. It implements Listener.Open.
func (l *Conn) subscribe(ctx context.Context, c *call.Call) (func(ctx context.Context) error, error) {
	f, err := l.send(ctx, c, l.rev)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		m, err := l.receive(ctx, f)
		if err == nil && m.Error != nil {
			err = &protocol.ListenRefused{Err: m.Error}
		}
		return err
	}, nil
}

// Listen implements [protocol.Conn].
func (l *Conn) Listen(ctx context.Context, uris []string) ([]string, error) {
	return l.listeners.listen(ctx, uris)
}

// acknowledged handles the acknowledgement of a subscription.
func (l *Conn) acknowledged(params wire.Raw) {
	if f := l.pending.Get(protocol.SubscriptionOf(params)); f != nil && f.Call.Method == wire.MethodListen {
		f.Call.Back.Notify(wire.NoteAcknowledged, params)
	}
}

// listenCancelled handles a notifications/cancelled of the server. A modern server sends
// it when it ends a subscription (2026-07-28, basic/patterns/cancellation), so it counts
// as the result of the subscription.
func (l *Conn) listenCancelled(params wire.Raw) {
	id := wire.IDOf(string(wire.ValueOf(params).Get("requestId").Raw()))
	if f := l.pending.Get(id); f != nil && f.Call.Method == wire.MethodListen {
		l.pending.Deliver(wire.Message{ID: id, Result: wire.Raw(`{}`)})
	}
}
