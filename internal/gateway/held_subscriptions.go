package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/replica/remote"
	"mcpgateway/internal/router"
	"mcpgateway/internal/upstream"
	"mcpgateway/internal/wire"
)

// kindSubscription is the kind of requests for the updates of a resource in a session with an upstream that
// another replica holds. They last as long as the subscription.
const kindSubscription = "subscription"

// noteSubscribed says between replicas that a subscription has begun.
const noteSubscribed = "subscribed"

// The pauses before a subscription is begun again after its holder has ended.
const (
	firstResubscribe = 100 * time.Millisecond
	maxResubscribe   = 5 * time.Second
)

// heldSubscriptions are the subscriptions in sessions that other replicas hold.
type heldSubscriptions struct {
	life     context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	draining chan struct{}
	drain    func() // ends those that this replica has for others

	mu  sync.Mutex
	all map[heldKey]*heldSubscription
}

// heldKey names a resource of a session.
type heldKey struct {
	at              heldSubscriber
	session, native string
}

// heldSubscription is one subscription for all clients of this replica that have made it.
type heldSubscription struct {
	h *heldSubscriptions
	heldKey
	c      *call.Call
	ctx    context.Context
	cancel context.CancelFunc
	begun  chan struct{} // closed when the first attempt has ended
	err    error         // of the first attempt; set before begun is closed
	users  int           // guarded by heldSubscriptions.mu
}

func newHeldSubscriptions() *heldSubscriptions {
	h := &heldSubscriptions{draining: make(chan struct{}), all: map[heldKey]*heldSubscription{}}
	h.life, h.end = context.WithCancel(context.Background())
	h.drain = sync.OnceFunc(func() { close(h.draining) })
	return h
}

// run ends all subscriptions when ctx ends.
func (h *heldSubscriptions) run(ctx context.Context) {
	<-ctx.Done()
	h.mu.Lock()
	h.end()
	h.mu.Unlock()
	h.running.Wait()
}

// heldSubscriber accepts the subscriptions of an upstream among several replicas.
type heldSubscriber struct{ *heldUpstream }

// heldSubscriber returns what accepts the subscriptions of an upstream. Without other replicas it is the
// sessions.
func (g *Gateway) heldSubscriber(name string, sessions *upstream.Sessions) router.Subscriber {
	if g.sharing == nil {
		return sessions
	}
	return heldSubscriber{g.newHeldUpstream(name, sessions, sessions)}
}

// Subscribe implements [router.Subscriber].
func (u heldSubscriber) Subscribe(ctx context.Context, c *call.Call, native string) (cancel func(), err error) {
	if !upstream.IsHeld(c.Session) {
		return u.sessions.Subscribe(ctx, c, native)
	}
	holder, err := u.holder(ctx, c.Session)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || holder == u.g.replica: // while the store is away, this replica uses a session of its own
		return u.sessions.Subscribe(ctx, c, native)
	}
	return u.g.sharing.held.subscribe(ctx, u, c, native)
}

// subscribe has the holder of a session subscribe, once for all clients of this replica.
func (h *heldSubscriptions) subscribe(ctx context.Context, at heldSubscriber, c *call.Call, native string) (cancel func(), err error) {
	key := heldKey{at, c.Session, native}
	h.mu.Lock()
	s := h.all[key]
	if s == nil {
		s = &heldSubscription{h: h, heldKey: key, begun: make(chan struct{})}
		s.ctx, s.cancel = context.WithCancel(h.life)
		s.c = &call.Call{
			ID: c.ID, Method: wire.MethodResourcesSubscribe, Params: wire.SetMember(wire.Raw(`{}`), "uri", wire.String(native)),
			Principal: c.Principal, Client: c.Client, ShareKey: c.ShareKey, Session: c.Session,
		}
		h.all[key] = s
		if h.life.Err() == nil {
			h.running.Go(s.run)
		}
	}
	s.users++
	h.mu.Unlock()
	leave := sync.OnceFunc(func() { h.leave(s) })
	select {
	case <-s.begun:
		if s.err != nil {
			leave()
			return nil, s.err
		}
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	case <-h.life.Done():
		leave()
		return nil, at.sessions.Failure("the gateway ends", true)
	}
}

// leave ends the subscription with its last user.
func (h *heldSubscriptions) leave(s *heldSubscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users--; s.users == 0 {
		h.forget(s)
	}
}

// forget removes a subscription, so that the next one begins anew. The caller holds mu.
func (h *heldSubscriptions) forget(s *heldSubscription) {
	s.cancel()
	if h.all[s.heldKey] == s {
		delete(h.all, s.heldKey)
	}
}

// run keeps the subscription until it is cancelled. A first attempt that fails ends it.
func (s *heldSubscription) run() {
	first, pause := true, firstResubscribe
	subscribed := func() {
		if first {
			close(s.begun)
		} else {
			s.updated(s.c.Params) // an update may have been missed
		}
		first, pause = false, firstResubscribe
	}
	for {
		err := s.attempt(subscribed)
		if first {
			s.fail(err)
			return
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxResubscribe)
		case <-s.ctx.Done():
			return
		}
	}
}

// fail ends a subscription that could not begin.
func (s *heldSubscription) fail(err error) {
	if rpc, ok := errors.AsType[*wire.Error](err); ok {
		s.err = rpc
	} else {
		s.err = s.at.sessions.Failure("the replica that holds the session cannot be reached", true)
	}
	s.h.mu.Lock()
	s.h.forget(s)
	s.h.mu.Unlock()
	close(s.begun)
}

// attempt subscribes at the replica that holds the session now, and returns when that subscription has
// ended.
func (s *heldSubscription) attempt(subscribed func()) error {
	holder, err := s.at.holder(s.ctx, s.c.Session)
	for range heldAttempts {
		if err == nil && holder == s.at.g.replica {
			return s.local(subscribed)
		}
		if err != nil {
			return err
		}
		c := *s.c
		c.Back = &updatesBack{s, subscribed}
		_, err = remote.Do(s.ctx, s.at.g.sharing.replicas, holder, kindSubscription, s.at.name, &c)
		switch {
		case errors.Is(err, remote.ErrNotHeld):
			s.at.g.sharing.leases.Forget(s.at.lease(c.Session), holder)
			holder, err = s.at.holder(s.ctx, c.Session)
		case errors.Is(err, replica.ErrGone):
			holder, err = s.at.takeOver(s.ctx, &c, holder)
		default:
			return err
		}
	}
	return err
}

// local subscribes in a session that this replica holds by now. Its updates go where all others go.
func (s *heldSubscription) local(subscribed func()) error {
	cancel, err := s.at.sessions.Subscribe(s.ctx, s.c, s.native)
	if err != nil {
		return err
	}
	defer cancel()
	subscribed()
	<-s.ctx.Done()
	return s.ctx.Err()
}

func (s *heldSubscription) updated(params wire.Raw) {
	s.at.g.subscriptions.Updated(s.at.name, s.session, params)
}

// updatesBack takes what the holder sends.
type updatesBack struct {
	s          *heldSubscription
	subscribed func()
}

// Notify implements [call.BackChannel].
func (b *updatesBack) Notify(method string, params wire.Raw) {
	if method == noteSubscribed {
		b.subscribed()
	} else if method == wire.NoteResourceUpdated {
		b.s.updated(params)
	}
}

// Ask implements [call.BackChannel]. A subscription asks nothing.
func (b *updatesBack) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeMethodNotFound, "a subscription cannot ask")
}

// watchHeld subscribes for another replica in a session that this one holds, until that one has enough.
func (g *Gateway) watchHeld(ctx context.Context, name string, c *call.Call) (call.Result, error) {
	u, ok := g.router.Routes().Subscribers[name].(heldSubscriber)
	native, named := wire.ValueOf(c.Params).Get("uri").Text()
	if !ok || !named || !g.sharing.leases.Holds(u.lease(c.Session)) {
		return call.Result{}, remote.ErrNotHeld
	}
	replaced, stop := g.subscriptions.Watch(u, router.Watched{Upstream: name, Session: c.Session, Native: native},
		func(params wire.Raw) { c.Back.Notify(wire.NoteResourceUpdated, params) })
	defer stop()
	cancel, err := u.sessions.Subscribe(ctx, c, native)
	if err != nil {
		return call.Result{}, err
	}
	defer cancel()
	c.Back.Notify(noteSubscribed, nil)
	select {
	case <-ctx.Done():
		return call.Result{}, ctx.Err()
	case <-replaced: // the other replica subscribes again
		return call.Result{Raw: wire.Raw(`{}`)}, nil
	case <-g.sharing.held.draining:
		return call.Result{Raw: wire.Raw(`{}`)}, nil
	}
}
