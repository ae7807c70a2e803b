package held

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

// noteSubscribed says between replicas that a subscription has begun.
const noteSubscribed = "subscribed"

// The pauses before a subscription is begun again after its holder has ended.
const (
	firstResubscribe = 100 * time.Millisecond
	maxResubscribe   = 5 * time.Second
)

// subscriptions are the subscriptions in sessions that other replicas hold.
type subscriptions struct {
	life     context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	draining chan struct{}
	drain    func() // ends those that this replica has for others

	mu  sync.Mutex
	all map[key]*subscription
}

// key names a resource of a session.
type key struct {
	at              subscriber
	session, native string
}

// subscription is one subscription for all clients of this replica that have made it.
type subscription struct {
	all *subscriptions
	key
	c      *call.Call
	ctx    context.Context
	cancel context.CancelFunc
	begun  chan struct{} // closed when the first attempt has ended
	err    error         // of the first attempt; set before begun is closed
	users  int           // guarded by heldSubscriptions.mu
}

func newSubscriptions() *subscriptions {
	a := &subscriptions{draining: make(chan struct{}), all: map[key]*subscription{}}
	a.life, a.end = context.WithCancel(context.Background())
	a.drain = sync.OnceFunc(func() { close(a.draining) })
	return a
}

// run ends all subscriptions when ctx ends.
func (a *subscriptions) run(ctx context.Context) {
	<-ctx.Done()
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	a.running.Wait()
}

// subscriber accepts the subscriptions of an upstream among several replicas.
type subscriber struct{ *heldUpstream }

// Subscriber returns the subscriber of an upstream whose sessions may be held by other replicas.
func (h *Holder) Subscriber(name string, sessions *upstream.Sessions) router.Subscriber {
	return subscriber{h.upstream(name, sessions, sessions)}
}

// Subscribe implements [router.Subscriber].
func (u subscriber) Subscribe(ctx context.Context, c *call.Call, native string) (cancel func(), err error) {
	if !upstream.IsHeld(c.Session) {
		return u.sessions.Subscribe(ctx, c, native)
	}
	holder, err := u.holder(ctx, c.Session)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil || holder == u.h.Name: // while the store is away, this replica uses a session of its own
		return u.sessions.Subscribe(ctx, c, native)
	}
	timer := c.Trace.Start(ctx, call.StageReplica, call.SpanStart{Upstream: u.name})
	c.Trace.Forward(holder)
	cancel, err = u.h.subscriptions.subscribe(ctx, u, c, native)
	timer.End(err)
	if u.h.leases.Holds(u.lease(c.Session)) { // by now, because the holder has ended
		c.Trace.Unforward()
	}
	return cancel, err
}

// subscribe has the holder of a session subscribe, once for all clients of this replica.
func (a *subscriptions) subscribe(ctx context.Context, at subscriber, c *call.Call, native string) (cancel func(), err error) {
	k := key{at, c.Session, native}
	a.mu.Lock()
	s := a.all[k]
	if s == nil {
		s = &subscription{all: a, key: k, begun: make(chan struct{})}
		s.ctx, s.cancel = context.WithCancel(a.life)
		s.c = &call.Call{
			ID: c.ID, Method: wire.MethodResourcesSubscribe, Params: wire.SetMember(wire.Raw(`{}`), "uri", wire.String(native)),
			Principal: c.Principal, Client: c.Client, ShareKey: c.ShareKey, Session: c.Session,
		}
		a.all[k] = s
		if a.life.Err() == nil {
			a.running.Go(s.run)
		}
	}
	s.users++
	a.mu.Unlock()
	leave := sync.OnceFunc(func() { a.leave(s) })
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
	case <-a.life.Done():
		leave()
		return nil, at.sessions.Failure("the gateway ends", true)
	}
}

// leave ends the subscription with its last user.
func (a *subscriptions) leave(s *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.users--; s.users == 0 {
		a.forget(s)
	}
}

// forget removes a subscription, so that the next one begins anew. The caller holds mu.
func (a *subscriptions) forget(s *subscription) {
	s.cancel()
	if a.all[s.key] == s {
		delete(a.all, s.key)
	}
}

// run keeps the subscription until it is cancelled. A first attempt that fails ends it.
func (s *subscription) run() {
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
func (s *subscription) fail(err error) {
	if rpc, ok := errors.AsType[*wire.Error](err); ok {
		s.err = rpc
	} else {
		s.err = s.at.sessions.Failure("the replica that holds the session cannot be reached", true)
	}
	s.all.mu.Lock()
	s.all.forget(s)
	s.all.mu.Unlock()
	close(s.begun)
}

// attempt subscribes at the replica that holds the session now, and returns when that subscription has
// ended.
func (s *subscription) attempt(subscribed func()) error {
	holder, err := s.at.holder(s.ctx, s.c.Session)
	for range heldAttempts {
		if err == nil && holder == s.at.h.Name {
			return s.local(subscribed)
		}
		if err != nil {
			return err
		}
		c := *s.c
		c.Back = &updatesBack{s, subscribed}
		_, err = remote.Do(s.ctx, s.at.h.Replicas, holder, kindSubscription, s.at.name, &c)
		switch {
		case errors.Is(err, remote.ErrNotHeld):
			s.at.h.leases.Forget(s.at.lease(c.Session), holder)
			holder, err = s.at.holder(s.ctx, c.Session)
		case errors.Is(err, replica.ErrGone):
			holder, err = s.at.takeOver(s.ctx, &c, holder)
		case errors.Is(err, replica.ErrEnding):
			holder, err = s.at.nextHolder(s.ctx, c.Session, holder)
		default:
			return err
		}
	}
	return err
}

// local subscribes in a session that this replica holds by now. Its updates go where all others go.
func (s *subscription) local(subscribed func()) error {
	cancel, err := s.at.sessions.Subscribe(s.ctx, s.c, s.native)
	if err != nil {
		return err
	}
	defer cancel()
	subscribed()
	<-s.ctx.Done()
	return s.ctx.Err()
}

func (s *subscription) updated(params wire.Raw) {
	s.at.h.updates.Updated(s.at.name, s.session, params)
}

// updatesBack takes what the holder sends.
type updatesBack struct {
	s          *subscription
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

// watch subscribes for another replica in a session that this one holds, until that one has enough.
func (h *Holder) watch(ctx context.Context, name string, c *call.Call) (call.Result, error) {
	u, ok := h.routes().Subscribers[name].(subscriber)
	native, named := wire.ValueOf(c.Params).Get("uri").Text()
	if !ok || !named || !h.leases.Holds(u.lease(c.Session)) {
		return call.Result{}, remote.ErrNotHeld
	}
	replaced, stop := h.updates.Watch(u, router.Watched{Upstream: name, Session: c.Session, Native: native},
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
	case <-h.subscriptions.draining:
		return call.Result{Raw: wire.Raw(`{}`)}, nil
	}
}
