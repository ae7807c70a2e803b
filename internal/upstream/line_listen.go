package upstream

import (
	"context"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// listenPause is how long a subscription that the server ended is left alone.
const listenPause = time.Second

// startListening subscribes to changes of lists, before any list is asked for,
// so that no change goes unheard. Where the server tells of none it does
// nothing.
func (l *lineConn) startListening(ctx context.Context, capabilities wire.Raw) error {
	c := listenCall(capabilities)
	if c == nil {
		return nil
	}
	f, err := l.send(ctx, c, l.rev)
	l.listen = f
	return err
}

// keepListening subscribes again when the server ends the subscription. Since
// it may have kept silent about changes meanwhile, all lists then count as
// changed. A server that refuses to be listened to is left alone.
func (l *lineConn) keepListening(ctx context.Context) {
	f := l.listen
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-f.answer:
			l.flights.end(f)
			if a.err != nil {
				return // the conversation is over
			}
			if a.msg.Error != nil {
				l.o.Logger.Warn("the server does not tell of changes", zap.Error(a.msg.Error))
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-l.ended:
			return
		case <-time.After(listenPause):
		}
		var err error
		if f, err = l.send(ctx, &call.Call{Method: f.call.Method, Params: f.call.Params, Back: nobody{}}, l.rev); err != nil {
			return
		}
		for _, changed := range []string{wire.NoteToolsChanged, wire.NotePromptsChanged, wire.NoteResourcesChanged} {
			l.in.notified(changed, nil)
		}
	}
}

// listenCancelled takes a notifications/cancelled of the server. A modern
// server sends one when it ends a subscription (2026-07-28,
// basic/patterns/cancellation); for the subscription that counts as its result.
func (l *lineConn) listenCancelled(params wire.Raw) {
	id := wire.IDOf(string(wire.ValueOf(params).Get("requestId").Raw()))
	if f := l.flights.get(id); f != nil && f.call.Method == wire.MethodListen {
		l.flights.deliver(wire.Message{ID: id, Result: wire.Raw(`{}`)})
	}
}
