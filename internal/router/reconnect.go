package router

import (
	"context"

	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/call"
)

// Reconnecter is an Upstream that can be told to connect for a call whose item is not known yet.
type Reconnecter interface {
	// Reconnect has an attempt to connect made, and waits until it has failed, the time for it is over, or
	// ctx ends: the caller ends ctx when the routes have the lists of the upstream. It bounds how many
	// calls wait and how many attempts they cause. The error, never nil, is a *wire.Error or that of ctx.
	Reconnect(ctx context.Context, c *call.Call) error
}

// lost returns the suspects that have no connection and can be told to connect. An upstream that the
// caller has to grant access to is left alone.
func (l *lookup) lost(c *call.Call) (lost []Reconnecter) {
	for _, u := range l.suspects {
		if part := l.view.Part(u.Upstream); part.Down() == nil || l.routes.needsGrant(u.Upstream, c) {
			continue
		}
		if up, ok := l.routes.Upstreams[u.Upstream].(Reconnecter); ok {
			lost = append(lost, up)
		}
	}
	return lost
}

// reconnection are the attempts to connect that are made for one call. Methods may be called on nil.
type reconnection struct {
	cancel context.CancelFunc
	over   chan struct{}
	err    error // set when over is closed
}

// reconnect has an attempt to connect made by each upstream. The caller calls end.
func reconnect(ctx context.Context, lost []Reconnecter, c *call.Call) *reconnection {
	a := &reconnection{over: make(chan struct{})}
	ctx, a.cancel = context.WithCancel(ctx)
	var all errgroup.Group
	for _, up := range lost {
		all.Go(func() error { return up.Reconnect(ctx, c) })
	}
	go func() {
		defer close(a.over)
		a.err = all.Wait()
	}()
	return a
}

// ended returns a channel that is closed when no attempt is made any more.
func (a *reconnection) ended() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.over
}

// failed returns why the attempts failed, nil while one is made.
func (a *reconnection) failed() error {
	select {
	case <-a.ended():
		return a.err
	default:
		return nil
	}
}

// end returns when no attempt uses the call any more.
func (a *reconnection) end() {
	if a != nil {
		a.cancel()
		<-a.over
	}
}
