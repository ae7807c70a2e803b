package held

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/replica"
	"mcpgateway/internal/replica/lease"
	"mcpgateway/internal/replica/remote"
	"mcpgateway/internal/router"
	"mcpgateway/internal/store"
)

// The kinds of calls that replicas pass to one another.
const (
	kindUpstream     = "upstream"     // calls in a session that another replica holds
	kindTask         = "task"         // requests about tasks that began at another replica
	kindSubscription = "subscription" // for the updates of a resource in such a session; they last as long as the subscription
)

// Options configures a Holder.
type Options struct {
	Name     string // of this replica
	Replicas *replica.Replicas
	Store    store.Store
	Logger   *ratelog.Logger
}

// Holder holds the sessions of this replica, and finds the holders of all others. It is safe for
// concurrent use.
type Holder struct {
	Options
	leases        *lease.Leases
	subscriptions *subscriptions

	// Set by Serve.
	routes  func() *router.Routes
	updates *router.Subscriptions
	enter   func() (leave func())
}

// New makes a Holder. Run has to run for it to hold anything.
func New(o Options) *Holder {
	h := &Holder{Options: o, subscriptions: newSubscriptions()}
	h.leases = lease.New(o.Store, "upstream-session", o.Name, h.leaseLost)
	return h
}

// Serve accepts the calls that other replicas pass on. It is called once, before the first call.
// routes returns the routes in use, updates takes the updates of resources, and enter counts a call
// until leave: its routes stay open that long.
func (h *Holder) Serve(routes func() *router.Routes, updates *router.Subscriptions, enter func() (leave func())) {
	h.routes, h.updates, h.enter = routes, updates, enter
	remote.Handle(h.Replicas, kindUpstream, h.do)
	remote.Handle(h.Replicas, kindSubscription, h.watch)
	remote.Handle(h.Replicas, kindTask, h.doTask)
}

// Run renews the leases until ctx ends, and ends all subscriptions then.
func (h *Holder) Run(ctx context.Context) {
	var group errgroup.Group
	group.Go(func() error {
		h.leases.Run(ctx)
		return nil
	})
	h.subscriptions.run(ctx)
	_ = group.Wait() // leases have no error
}

// giveUpEvery is the time between two looks for sessions that can be given up.
const giveUpEvery = 100 * time.Millisecond

// GiveUp gives up each session of this replica when no call runs in it any more, until ctx ends, so that another replica takes it over while this one
// drains.
func (h *Holder) GiveUp(ctx context.Context) {
	ticker := time.NewTicker(giveUpEvery)
	defer ticker.Stop()
	for {
		h.leases.Release(ctx, func(name string) bool {
			upstream, session, _ := strings.Cut(name, "\x00")
			u := h.byName(upstream)
			return u == nil || u.sessions.GiveUp(session)
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Drain ends the subscriptions that this replica has for others, which begin them again elsewhere.
func (h *Holder) Drain() { h.subscriptions.drain() }

// leaseLost logs that another replica holds a session that this one has.
func (h *Holder) leaseLost(_, holder string) {
	h.Logger.Warn("a session with an upstream is held by another replica too", zap.String("replica", holder))
}
