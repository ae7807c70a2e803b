package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

const (
	// subscribeTimeout bounds how long a subscriber waits, and how long the server may
	// take for the request.
	subscribeTimeout = 10 * time.Second
	// maxSubscriptions bounds the resources of one server that have subscribers.
	maxSubscriptions = 10_000
)

// Subscribe subscribes to updates of a resource. They come to [Session.Notified] from
// then on, until Unsubscribe was called as often as Subscribe succeeded. The server is
// asked once for all subscribers, and again after a reconnection; the connector then
// makes up an update, since one may have been missed.
//
// The error is a *wire.Error, the server's own or one of [Connector.Do], or that of
// ctx. A server without the capability is answered for like an unknown method. Nobody
// waits longer than subscribeTimeout.
func (c *Connector) Subscribe(ctx context.Context, uri string) error {
	began := time.Now()
	c.beginUse() // until Unsubscribe
	bounded, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	err := c.subscribe(bounded, uri)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		c.endUse()
		return ctx.Err()
	}
	c.endUse()
	if refusal, ok := err.(*wire.Error); ok {
		return refusal
	}
	reason := fmt.Sprintf("the server did not answer within %s", subscribeTimeout)
	if f, ok := errors.AsType[*protocol.CallError](err); ok {
		reason = f.Reason
	}
	since := began
	if s := c.Snapshot(); s.State != Ready {
		since = s.Since
	}
	return c.Failure(reason, since, true, protocol.RetryAfterOf(err))
}

func (c *Connector) subscribe(ctx context.Context, uri string) error {
	if _, err := c.await(ctx, nil); err != nil {
		return err
	}
	sub, err := c.addSubscriber(uri)
	if err != nil {
		return err
	}
	select {
	case <-sub.answered:
		err = sub.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.removeSubscriber(uri)
	}
	return err
}

// Unsubscribe undoes one successful call of Subscribe. After the last one the
// subscription at the server is cancelled. It does not block.
func (c *Connector) Unsubscribe(uri string) {
	if c.removeSubscriber(uri) {
		c.endUse()
	}
}

// removeSubscriber takes a subscriber from a resource. It returns false if there is none.
func (c *Connector) removeSubscriber(uri string) (removed bool) {
	c.update(func(s *state) {
		sub := s.subscriptions[uri]
		if removed = sub != nil; !removed {
			return
		}
		if sub.subscribers--; sub.subscribers == 0 {
			delete(s.subscriptions, uri)
			s.unsynced = append(s.unsynced, uri)
		}
	})
	return removed
}

// resourceSubscription is a resource with subscribers.
type resourceSubscription struct {
	subscribers int
	answered    chan struct{} // closed when the server has accepted or refused
	err         error         // the refusal; set before answered is closed
}

// addSubscriber adds a subscriber to a resource. The error is a *protocol.CallError.
func (c *Connector) addSubscriber(uri string) (sub *resourceSubscription, err error) {
	c.update(func(s *state) {
		if sub = s.subscriptions[uri]; sub == nil {
			if len(s.subscriptions) >= maxSubscriptions {
				err = &protocol.CallError{Reason: fmt.Sprintf("overloaded: there are subscriptions to %d resources", maxSubscriptions), RetryAfter: protocol.RetryOverloaded}
				return
			}
			sub = &resourceSubscription{answered: make(chan struct{})}
			s.subscriptions[uri] = sub
			s.unsynced = append(s.unsynced, uri)
		}
		sub.subscribers++
	})
	return sub, err
}

// resync has subscriptions compared with the server again.
func (c *Connector) resync(uris []string) {
	c.update(func(s *state) { s.unsynced = append(s.unsynced, uris...) })
}

// resyncAll has all subscriptions compared with the server again, and nothing else.
func (c *Connector) resyncAll() {
	c.update(func(s *state) {
		s.unsynced = s.unsynced[:0]
		for uri := range s.subscriptions {
			s.unsynced = append(s.unsynced, uri)
		}
	})
	protocol.Poke(c.signals.subscriptions)
}

// takeUnsynced returns up to n resources to compare with the server.
func (c *Connector) takeUnsynced(n int) (uris []string) {
	c.update(func(s *state) {
		n = min(n, len(s.unsynced))
		uris = slices.Clone(s.unsynced[:n])
		if s.unsynced = s.unsynced[n:]; len(s.unsynced) == 0 {
			s.unsynced = nil
		}
	})
	return uris
}

// subscriptionStatus is the status of a subscription.
type subscriptionStatus uint8

const (
	notSubscribed subscriptionStatus = iota // no subscribers, or all are being refused
	pending                                 // subscribers wait for the server's answer
	subscribed                              // the server has accepted
)

func (s *resourceSubscription) status() subscriptionStatus {
	if s == nil {
		return notSubscribed
	}
	select {
	case <-s.answered:
		if s.err != nil {
			return notSubscribed
		}
		return subscribed
	default:
		return pending
	}
}

// subscriptionStatus returns the status of a resource.
func (c *Connector) subscriptionStatus(uri string) (status subscriptionStatus) {
	c.view(func(s *state) { status = s.subscriptions[uri].status() })
	return status
}

// subscribedURIs returns the resources with subscribers that were not refused, sorted.
func (c *Connector) subscribedURIs() []string {
	var uris []string
	c.view(func(s *state) {
		for uri, sub := range s.subscriptions {
			if sub.status() != notSubscribed {
				uris = append(uris, uri)
			}
		}
	})
	slices.Sort(uris)
	return uris
}

// answerSubscribers gives the subscribers that wait the server's answer. It returns
// false if none waits.
func (c *Connector) answerSubscribers(uri string, err error) (waited bool) {
	c.update(func(s *state) {
		sub := s.subscriptions[uri]
		if waited = sub.status() == pending; waited {
			sub.err = err
			close(sub.answered)
		}
	})
	return waited
}

// assumeUpdates makes up an update of every resource with a subscription, because
// updates may have been missed.
func (c *Connector) assumeUpdates() {
	for _, uri := range c.subscribedURIs() {
		if c.subscriptionStatus(uri) == subscribed {
			c.o.Session.Notified(wire.NoteResourceUpdated, protocol.UpdatedParams(uri))
		}
	}
}

// errUnsubscribable is the answer for a server that does not offer subscriptions, as
// such a server gives it itself.
var errUnsubscribable = wire.Errorf(wire.CodeMethodNotFound, "method not found: %q", wire.MethodResourcesSubscribe)

// errNoSuchResource is the answer for a resource that a modern server left out of its
// acknowledgement. Only clients of legacy revisions see it.
func errNoSuchResource(uri string) *wire.Error {
	return wire.Errorf(wire.CodeResourceNotFound, "the server does not tell of updates of this resource").
		WithData(protocol.UpdatedParams(uri))
}
