package connector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// maxSubscribing bounds the concurrent requests about subscriptions to one legacy
// server.
const maxSubscribing = 16

// subscriptionSync keeps the subscriptions of one conversation equal to those of the
// connector. It belongs to one goroutine.
type subscriptionSync struct {
	c      *Connector
	conn   protocol.Conn
	synced map[string]bool // resources of which the server sends updates

	// failed are resources of which the server sends no updates although it accepted
	// the subscription before, or because the request was lost.
	failed map[string]bool
	pause  protocol.Backoff
	retry  <-chan time.Time // when the failed ones are tried again
}

// syncSubscriptions runs a subscriptionSync until ctx, which is that of the
// conversation, ends.
func (c *Connector) syncSubscriptions(ctx context.Context, conn protocol.Conn, h protocol.Hello) {
	y := subscriptionSync{c: c, conn: conn, synced: make(map[string]bool), failed: make(map[string]bool)}
	c.resyncAll()
	switch {
	case !protocol.Declares(h.Capabilities, "resources", "subscribe"):
		y.refuse(ctx)
	case conn.Traits().Listens:
		y.listen(ctx)
	default:
		y.request(ctx)
	}
}

// refuse answers for a server without subscriptions.
func (y *subscriptionSync) refuse(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-y.c.signals.subscriptionsLost:
		case <-y.c.signals.subscriptions:
			for _, uri := range y.c.takeUnsynced(maxSubscriptions) {
				y.c.answerSubscribers(uri, errUnsubscribable)
			}
		}
	}
}

// subscribeResult is the outcome of one request about a resource.
type subscribeResult struct {
	uri       string
	subscribe bool // or unsubscribe
	epoch     int  // counts how often the server has forgotten all subscriptions
	err       error
}

// request keeps the subscriptions of a legacy server, each by a separate request
// (2025-11-25, server/resources, "Subscriptions"). Only one request about a resource
// runs at a time, so that the server gets them in order.
func (y *subscriptionSync) request(ctx context.Context) {
	busy := make(map[string]bool)
	results := make(chan subscribeResult, maxSubscribing)
	epoch := 0
	var wg sync.WaitGroup
	defer wg.Wait()

	compare := func(uri string) {
		if busy[uri] {
			return // compared again when the request ends
		}
		status := y.c.subscriptionStatus(uri)
		switch {
		case status != notSubscribed && y.failed[uri]:
			return // until it is tried again
		case status == pending && y.synced[uri]:
			y.c.answerSubscribers(uri, nil)
			return
		case (status != notSubscribed) == y.synced[uri]:
			return
		}
		busy[uri] = true
		r := subscribeResult{uri: uri, subscribe: status != notSubscribed, epoch: epoch}
		wg.Go(func() {
			r.err = y.send(ctx, r)
			results <- r
		})
	}
	for {
		for len(busy) < maxSubscribing {
			next := y.c.takeUnsynced(1)
			if len(next) == 0 {
				break
			}
			compare(next[0])
		}
		unsynced := y.c.signals.subscriptions
		if len(busy) >= maxSubscribing {
			unsynced = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-unsynced:
		case <-y.c.signals.subscriptionsLost:
			epoch++
			y.forget()
		case <-y.retry:
			y.tryAgain()
		case r := <-results:
			delete(busy, r.uri)
			switch {
			case ctx.Err() != nil:
				return // the end of the conversation is not the server's answer
			case r.epoch != epoch:
				// The server has forgotten everything since.
			case !r.subscribe:
				delete(y.synced, r.uri)
			case r.err != nil:
				y.fail(r.uri, r.err)
			default:
				y.succeed(r.uri)
			}
			compare(r.uri)
		}
	}
}

// send makes one request about a resource.
func (y *subscriptionSync) send(ctx context.Context, r subscribeResult) error {
	method := wire.MethodResourcesUnsub
	if r.subscribe {
		method = wire.MethodResourcesSubscribe
	}
	_, err := request(ctx, y.conn, &call.Call{Method: method, Params: protocol.UpdatedParams(r.uri), Back: protocol.NoClient{}}, subscribeTimeout)
	if err != nil && ctx.Err() == nil {
		y.c.o.Logger.Debug("the server refused a request about a subscription", zap.String("method", method), y.c.o.why(err))
	}
	return err
}

// listen keeps the subscriptions of a modern server, which are made for the whole set
// of resources at once.
func (y *subscriptionSync) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-y.c.signals.subscriptions:
		case <-y.c.signals.subscriptionsLost:
			y.forget()
		case <-y.retry:
			y.tryAgain()
		}
		for single := false; ; {
			y.c.takeUnsynced(maxSubscriptions) // only the whole set counts
			all, fresh := y.plan(single)
			if len(fresh) == 0 && len(all) == len(y.synced) {
				break
			}
			err := y.relisten(ctx, all, fresh)
			if ctx.Err() != nil {
				return
			}
			if _, refused := errors.AsType[*wire.Error](err); refused && len(fresh) > 1 {
				single = true // one resource may be the reason for all
				continue
			}
			for _, uri := range fresh {
				if err != nil {
					y.fail(uri, err)
				}
			}
			if err != nil && len(fresh) == 0 {
				break // superfluous updates are dropped until the set changes again
			}
		}
	}
}

// plan returns the resources to listen to, and which of them are new. If single is
// set it plans at most one new resource.
func (y *subscriptionSync) plan(single bool) (all, fresh []string) {
	for _, uri := range y.c.subscribedURIs() {
		switch {
		case y.synced[uri]:
			y.c.answerSubscribers(uri, nil)
		case y.failed[uri], single && len(fresh) > 0:
			continue
		default:
			fresh = append(fresh, uri)
		}
		all = append(all, uri)
	}
	return all, fresh
}

// relisten subscribes to all resources at once, and notes which ones the server
// acknowledges.
func (y *subscriptionSync) relisten(ctx context.Context, all, fresh []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, subscribeTimeout,
		&protocol.CallError{Reason: "the server did not acknowledge the subscription in time"})
	defer cancel()
	honored, err := y.conn.Listen(ctx, all)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		y.c.o.Logger.Debug("the server refused a subscription", zap.Int("resources", len(all)), y.c.o.why(err))
		return err
	}
	before := y.synced
	y.synced = make(map[string]bool, len(honored))
	for _, uri := range honored {
		if before[uri] {
			y.synced[uri] = true
			continue
		}
		y.succeed(uri)
	}
	for _, uri := range all {
		if !y.synced[uri] {
			y.fail(uri, errNoSuchResource(uri))
		}
	}
	return nil
}

// succeed records that the server accepted a subscription. If subscribers already got
// that answer before, an update may have been missed, so they get one.
func (y *subscriptionSync) succeed(uri string) {
	y.synced[uri] = true
	y.pause.Reset()
	if !y.c.answerSubscribers(uri, nil) && y.c.subscriptionStatus(uri) == subscribed {
		y.c.o.Session.Notified(wire.NoteResourceUpdated, protocol.UpdatedParams(uri))
	}
}

// fail records that a subscription failed. It does not report the failure if the
// request was lost, or if subscribers were already told that the subscription
// succeeded: both are tried again.
func (y *subscriptionSync) fail(uri string, err error) {
	f, ok := errors.AsType[*protocol.CallError](err)
	lost := ok && (f.ConnectionLost || f.NotSent)
	if !lost && y.c.answerSubscribers(uri, err) || y.c.subscriptionStatus(uri) == notSubscribed {
		return
	}
	y.failed[uri] = true
	y.c.o.Logger.Debug("a subscription did not come about", y.c.o.why(err))
	if y.retry == nil {
		y.retry = time.After(y.pause.Next(time.Now()))
	}
}

// tryAgain has everything that failed compared again.
func (y *subscriptionSync) tryAgain() {
	uris := slices.Collect(maps.Keys(y.failed))
	clear(y.failed)
	y.retry = nil
	y.c.resync(uris)
}

// forget resets the state: the server has no subscriptions.
func (y *subscriptionSync) forget() {
	clear(y.synced)
	clear(y.failed)
	y.retry = nil
	y.c.resyncAll()
}
