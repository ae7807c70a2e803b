package router

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Subscriber is an upstream that accepts subscriptions to resources.
type Subscriber interface {
	// Session is the method of [Upstream].
	Session(ctx context.Context, c *call.Call) (string, error)
	// Subscribe returns once the upstream sends updates of the resource with this native
	// URI, in the session that c names. The error is a *wire.Error or that of ctx. cancel
	// ends the subscription and does not block.
	Subscribe(ctx context.Context, c *call.Call, native string) (cancel func(), err error)
}

// Subscriptions are the subscriptions of clients to resources. They deliver each update to the clients
// that subscribed, under the URI that the client knows. All methods may be called concurrently. No lock
// is held while an upstream or a client is waited for.
type Subscriptions struct {
	router *Router

	mu  sync.RWMutex
	set map[resourceKey]map[*subscription]bool
}

// resourceKey names a resource of an upstream, in one session with it.
type resourceKey struct{ upstream, session, native string }

// subscription is the subscription of one client to one resource.
type subscription struct {
	who     *call.Principal
	client  *call.Client
	public  string // as the client wrote it
	deliver func(uri string, params wire.Raw)
	// native takes updates as the upstream sends them, and replaced is called once the routes lead
	// to another upstream than via. They are in place of all of the above, see Watch.
	native   func(params wire.Raw)
	replaced func()

	// Guarded by Subscriptions.mu, and set once the upstream has accepted it.
	at     resourceKey
	via    Subscriber
	cancel func() // at via
	over   bool   // the client has ended it
}

// NewSubscriptions returns Subscriptions that resolve names as calls of r do.
func NewSubscriptions(r *Router) *Subscriptions {
	return &Subscriptions{router: r, set: make(map[resourceKey]map[*subscription]bool)}
}

// Subscribe subscribes the client that makes the call to a resource. deliver gets the URI of
// the resource that has changed, which is public or a part of it, and the params of the
// notification, which it may keep. deliver must not block. It may be called before Subscribe
// returns, and again while cancel runs.
//
// The error is a *wire.Error or that of ctx. It is the same for a resource that no upstream has and
// for one that policy refuses. cancel ends the subscription, may be called more than once, and
// does not block.
func (s *Subscriptions) Subscribe(ctx context.Context, c *call.Call, public string, deliver func(uri string, params wire.Raw)) (cancel func(), err error) {
	begin := time.Now()
	d := struct {
		call.Call
		trace call.Trace
	}{Call: *c}
	d.Method = wire.MethodResourcesSubscribe // a listen request subscribes to many
	d.trace.Follow(c.Trace)
	d.Trace = &d.trace
	s.router.beginTrace(&d.Call, begin)
	cancel, log, err := s.subscribe(ctx, &d.Call, public, deliver)
	log.endedEarly(ctx, c, err)
	log.unaudited(err)
	duration := time.Since(begin)
	exported := s.router.endTrace(&d.Call, &log, begin, duration, call.Result{}, err)
	s.router.observe(&d.Call, &log, duration, exported, nil, err)
	if s.router.audit != nil {
		s.router.auditEnd(&d.Call, public, &log, call.Result{}, duration, err)
	}
	return cancel, err
}

func (s *Subscriptions) subscribe(ctx context.Context, c *call.Call, public string, deliver func(string, wire.Raw)) (func(), logFields, error) {
	if err := s.router.gather(ctx, c); err != nil {
		return nil, logFields{}, err
	}
	f := s.router.newForwarding(c)
	if err := f.find(ctx, namespace.ItemRef{Kind: call.Resource, Name: public}); err != nil {
		return nil, f.log, err
	}
	if _, err := f.authorize(ctx); err != nil {
		return nil, f.log, err
	}
	if _, err := f.limit(ctx); err != nil {
		return nil, f.log, err
	}
	defer f.reservation.release()
	if f.mayMask() { // the upstream is not asked whether it has the resource
		return nil, f.log, f.notFound("no upstream lists the resource, and the policy refuses some of the resources that are not listed")
	}
	sub := &subscription{who: c.Principal, client: c.Client, public: public, deliver: deliver}
	if err := s.attach(ctx, c, sub, f.routes, f.target); err != nil {
		err = f.maskNotFound(err)
		return nil, f.log, err
	}
	return func() { s.cancel(sub) }, f.log, nil
}

// attach subscribes at the upstream of target, in place of the subscription at the upstream
// before.
func (s *Subscriptions) attach(ctx context.Context, c *call.Call, sub *subscription, routes *Routes, target catalog.Target) error {
	at := resourceKey{upstream: target.Part.Upstream(), native: target.Native}
	upstream := routes.Subscribers[at.upstream]
	if upstream == nil {
		return wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", c.Method)
	}
	var err error
	if at.session, err = upstream.Session(ctx, c); err != nil {
		return err
	}
	down := *c
	down.Session = at.session
	s.add(at, sub) // before the upstream can send an update
	cancel, err := upstream.Subscribe(ctx, &down, at.native)

	s.mu.Lock()
	before, undo := sub.at, sub.cancel
	drop := before
	switch {
	case err == nil && !sub.over:
		sub.at, sub.via, sub.cancel = at, upstream, cancel
	case err == nil:
		drop, undo = at, cancel
	default:
		drop, undo = at, nil
	}
	if drop != sub.at || sub.over {
		s.remove(drop, sub)
	}
	s.mu.Unlock()
	if undo != nil {
		undo()
	}
	if rpc, ok := errors.AsType[*wire.Error](err); ok {
		return target.Part.Naming().Error(rpc, target.Asked())
	}
	return err
}

// cancel ends a subscription.
func (s *Subscriptions) cancel(sub *subscription) {
	s.mu.Lock()
	over := sub.over
	sub.over = true
	s.remove(sub.at, sub)
	cancel := sub.cancel
	s.mu.Unlock()
	if !over {
		cancel()
	}
}

// maxReattaching bounds how many subscriptions are attached again at the same time.
const maxReattaching = 16

// Reattach subscribes again if the routes lead to a different upstream than before. The client
// gets an update, because one may have been missed. A subscription that the new upstream does
// not accept stays as it is, and the next Reattach tries again. Reattach returns when it is
// done or ctx ends. It belongs to one goroutine.
func (s *Subscriptions) Reattach(ctx context.Context) {
	routes := s.router.Routes()
	var stale []*subscription
	s.mu.RLock()
	for at, subs := range s.set {
		for sub := range subs {
			via := routes.Subscribers[at.upstream]
			switch {
			case sub.via == via:
			case sub.native != nil:
				sub.replaced()
			case sub.at == at && via != nil:
				stale = append(stale, sub)
			}
		}
	}
	s.mu.RUnlock()
	var moving errgroup.Group
	moving.SetLimit(maxReattaching)
	for _, sub := range stale {
		moving.Go(func() error {
			s.reattach(ctx, sub)
			return nil
		})
	}
	_ = moving.Wait() // reattach returns no error
}

func (s *Subscriptions) reattach(ctx context.Context, sub *subscription) {
	c := &call.Call{Method: wire.MethodResourcesSubscribe, Principal: s.router.latest(sub.who), Client: sub.client, Back: noBackChannel{}}
	f := s.router.newForwarding(c)
	err := f.find(ctx, namespace.ItemRef{Kind: call.Resource, Name: sub.public})
	if err == nil {
		err = s.attach(ctx, c, sub, f.routes, f.target)
	}
	if err != nil {
		s.router.log.Debug("a subscription cannot be moved", zap.Error(err))
		return
	}
	sub.deliver(sub.public, wire.SetMember(wire.Raw(`{}`), "uri", wire.String(sub.public)))
}

func (s *Subscriptions) add(at resourceKey, sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set[at] == nil {
		s.set[at] = make(map[*subscription]bool)
	}
	s.set[at][sub] = true
}

// remove removes a subscription at a resource. The caller holds mu.
func (s *Subscriptions) remove(at resourceKey, sub *subscription) {
	delete(s.set[at], sub)
	if len(s.set[at]) == 0 {
		delete(s.set, at)
	}
}

// Watched names a resource in a session with an upstream, by its native URI.
type Watched struct{ Upstream, Session, Native string }

// Watch passes on the updates of a resource as the upstream sends them: another gateway decides who gets
// them. deliver must not block. The caller subscribes at via, and replaced is closed when the routes lead
// to another upstream.
func (s *Subscriptions) Watch(via Subscriber, w Watched, deliver func(params wire.Raw)) (replaced <-chan struct{}, stop func()) {
	gone := make(chan struct{})
	at := resourceKey{w.Upstream, w.Session, w.Native}
	sub := &subscription{at: at, via: via, native: deliver, replaced: sync.OnceFunc(func() { close(gone) })}
	s.add(at, sub)
	return gone, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(at, sub)
	}
}

// Updated takes the notification of an upstream, in the session with this name, that a resource
// has changed. The update goes to the clients that subscribed to that resource. If there are
// none, it goes to those that subscribed to a resource that it is a part of (2025-11-25 and
// 2026-07-28, schema, ResourceUpdatedNotification: the URI "might be a sub-resource of the one
// that the client actually subscribed to"). Updated does not block.
func (s *Subscriptions) Updated(upstream, session string, params wire.Raw) {
	place := wire.ValueOf(params).Get("uri")
	native, ok := place.Text()
	if !ok {
		return
	}
	subs, exact := s.subscribersOf(upstream, session, native)
	if len(subs) == 0 {
		return
	}
	routes := s.router.Routes()
	for _, sub := range subs {
		if sub.native != nil {
			sub.native(params)
			continue
		}
		who := s.router.latest(sub.who) // who may have fewer rights than when they subscribed
		table := routes.TableFor(who)
		part, ok := table.Part(upstream)
		if !ok {
			continue
		}
		public := part.Naming().PublicURI(native)
		if exact {
			public = sub.public
		}
		j := table.View(who, sub.client).PolicyFor(call.Resource, part, public, native)
		if j.Decide(policy.Request{Method: wire.MethodResourcesSubscribe}).Denied() {
			continue
		}
		e := wire.NewEdit(params)
		e.Replace(place, wire.String(public))
		sub.deliver(public, e.Bytes())
	}
}

// subscribersOf returns the subscriptions that get an update of a resource, and whether they
// are to the resource itself.
func (s *Subscriptions) subscribersOf(upstream, session, native string) (subs []*subscription, exact bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	collect := func(uri string) {
		for sub := range s.set[resourceKey{upstream, session, uri}] {
			subs = append(subs, sub)
		}
	}
	if collect(native); len(subs) > 0 {
		return subs, true
	}
	for whole := range ancestors(native) {
		collect(whole)
	}
	return subs, false
}

// Bounds of the search for ancestors of a URI, which comes from an upstream.
const (
	maxPath  = 4096 // bytes of the URI
	maxDepth = 128
)

// ancestors iterates over the URIs of the folders that the path of uri goes through, the nearest
// first, each with a slash at its end and without.
func ancestors(uri string) iter.Seq[string] {
	return func(yield func(string) bool) {
		_, rest, ok := strings.Cut(uri, ":")
		if !ok || len(uri) > maxPath {
			return
		}
		root := len(uri) - len(rest) // where the path begins
		if after, ok := strings.CutPrefix(rest, "//"); ok {
			slash := strings.IndexByte(after, '/')
			if slash < 0 {
				return
			}
			root += len("//") + slash
		}
		path := uri
		if end := strings.IndexAny(uri[root:], "?#"); end >= 0 {
			path = uri[:root+end]
		}
		for range maxDepth {
			slash := strings.LastIndexByte(path[root:], '/')
			if slash < 0 {
				return
			}
			folder := path[:root+slash+1]
			if path = path[:root+slash]; folder != uri && !yield(folder) {
				return
			}
			if slash > 0 && !yield(path) {
				return
			}
		}
	}
}
