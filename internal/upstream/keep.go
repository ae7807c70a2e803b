package upstream

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

// maxSubscribing bounds the requests about subscriptions to one legacy server
// that are under way at once.
const maxSubscribing = 16

// keeper sees to it that the server of one conversation tells of the resources
// that are wanted, and of no others. It belongs to one goroutine.
type keeper struct {
	c    *Connector
	conn protocol.Conn
	have map[string]bool // what the server tells of

	// failed is what it does not tell of although it said so before, or because
	// the request for it was lost.
	failed map[string]bool
	pause  protocol.Backoff
	retry  <-chan time.Time // when that is tried again
}

// keep runs a keeper until ctx, which is that of the conversation, ends.
func (c *Connector) keep(ctx context.Context, conn protocol.Conn, h protocol.Hello) {
	k := keeper{c: c, conn: conn, have: make(map[string]bool), failed: make(map[string]bool)}
	c.wants.all()
	switch {
	case !protocol.Declares(h.Capabilities, "resources", "subscribe"):
		k.refuse(ctx)
	case conn.Traits().Listens:
		k.listen(ctx)
	default:
		k.request(ctx)
	}
}

// refuse answers for a server without subscriptions.
func (k *keeper) refuse(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.c.box.forgotten:
		case <-k.c.wants.full:
			for _, uri := range k.c.wants.take(maxWants) {
				k.c.wants.settle(uri, errUnsubscribable)
			}
		}
	}
}

// done is what came of one request about a resource.
type done struct {
	uri       string
	subscribe bool // or unsubscribe
	session   int  // the one in which it was begun
	err       error
}

// request keeps the subscriptions of a legacy server, each by a request of its
// own (2025-11-25, server/resources, "Subscriptions"). About one resource there
// is one request at a time, so that the server gets them in the order in which
// they were meant.
func (k *keeper) request(ctx context.Context) {
	busy := make(map[string]bool)
	results := make(chan done, maxSubscribing)
	session := 0
	var wg sync.WaitGroup
	defer wg.Wait()

	look := func(uri string) {
		if busy[uri] {
			return // its end looks again
		}
		how := k.c.wants.of(uri)
		switch {
		case how != unwanted && k.failed[uri]:
			return // until it is tried again
		case how == asked && k.have[uri]:
			k.c.wants.settle(uri, nil)
			return
		case (how != unwanted) == k.have[uri]:
			return
		}
		busy[uri] = true
		d := done{uri: uri, subscribe: how != unwanted, session: session}
		wg.Go(func() {
			d.err = k.send(ctx, d)
			results <- d
		})
	}
	for {
		for len(busy) < maxSubscribing {
			next := k.c.wants.take(1)
			if len(next) == 0 {
				break
			}
			look(next[0])
		}
		full := k.c.wants.full
		if len(busy) >= maxSubscribing {
			full = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-full:
		case <-k.c.box.forgotten:
			session++
			k.forget()
		case <-k.retry:
			k.tryAgain()
		case d := <-results:
			delete(busy, d.uri)
			switch {
			case ctx.Err() != nil:
				return // that the conversation is over is not the server's answer
			case d.session != session:
				// What the server said before it forgot everything counts no more.
			case !d.subscribe:
				delete(k.have, d.uri)
			case d.err != nil:
				k.fail(d.uri, d.err)
			default:
				k.succeed(d.uri)
			}
			look(d.uri)
		}
	}
}

// send makes one request about a resource.
func (k *keeper) send(ctx context.Context, d done) error {
	method := wire.MethodResourcesUnsub
	if d.subscribe {
		method = wire.MethodResourcesSubscribe
	}
	_, err := request(ctx, k.conn, &call.Call{Method: method, Params: protocol.UpdatedParams(d.uri), Back: protocol.NoClient{}}, subscribeTimeout)
	if err != nil && ctx.Err() == nil {
		k.c.o.Logger.Debug("the server refused a request about a subscription", zap.String("method", method), k.c.o.why(err))
	}
	return err
}

// listen keeps the subscriptions of a modern server, which are made for the whole
// set of resources at once.
func (k *keeper) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.c.wants.full:
		case <-k.c.box.forgotten:
			k.forget()
		case <-k.retry:
			k.tryAgain()
		}
		for single := false; ; {
			k.c.wants.take(maxWants) // it is the whole set that counts
			all, fresh := k.plan(single)
			if len(fresh) == 0 && len(all) == len(k.have) {
				break
			}
			err := k.relisten(ctx, all, fresh)
			if ctx.Err() != nil {
				return
			}
			if _, refused := errors.AsType[*wire.Error](err); refused && len(fresh) > 1 {
				single = true // one resource may be the reason for all
				continue
			}
			for _, uri := range fresh {
				if err != nil {
					k.fail(uri, err)
				}
			}
			if err != nil && len(fresh) == 0 {
				break // the server tells of too much, which is dropped, until the set changes again
			}
		}
	}
}

// plan returns what the server is to tell of, and what of that it does not tell
// of yet, of which single leaves one only.
func (k *keeper) plan(single bool) (all, fresh []string) {
	for _, uri := range k.c.wants.uris() {
		switch {
		case k.have[uri]:
			k.c.wants.settle(uri, nil)
		case k.failed[uri], single && len(fresh) > 0:
			continue
		default:
			fresh = append(fresh, uri)
		}
		all = append(all, uri)
	}
	return all, fresh
}

// relisten subscribes to all, and notes what the server acknowledges.
func (k *keeper) relisten(ctx context.Context, all, fresh []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, subscribeTimeout,
		&protocol.CallError{Reason: "the server did not acknowledge the subscription in time"})
	defer cancel()
	honored, err := k.conn.Listen(ctx, all)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		k.c.o.Logger.Debug("the server refused a subscription", zap.Int("resources", len(all)), k.c.o.why(err))
		return err
	}
	before := k.have
	k.have = make(map[string]bool, len(honored))
	for _, uri := range honored {
		if before[uri] {
			k.have[uri] = true
			continue
		}
		k.succeed(uri)
	}
	for _, uri := range all {
		if !k.have[uri] {
			k.fail(uri, errNoSuchResource(uri))
		}
	}
	return nil
}

// succeed notes that the server tells of a resource. If it did so before the
// conversation, an update may have been missed.
func (k *keeper) succeed(uri string) {
	k.have[uri] = true
	k.pause.Reset()
	if !k.c.wants.settle(uri, nil) && k.c.wants.of(uri) == stands {
		k.c.box.Notified(wire.NoteResourceUpdated, protocol.UpdatedParams(uri))
	}
}

// supposeUpdates makes up an update of every resource that is subscribed to, as one may
// have been missed.
func (c *Connector) supposeUpdates() {
	for _, uri := range c.wants.uris() {
		if c.wants.of(uri) == stands {
			c.box.Notified(wire.NoteResourceUpdated, protocol.UpdatedParams(uri))
		}
	}
}

// fail notes that the server does not tell of a resource. Who was told before
// that it does is not told otherwise, and nobody learns that a request was lost:
// both are tried again.
func (k *keeper) fail(uri string, err error) {
	f, ok := errors.AsType[*protocol.CallError](err)
	lost := ok && (f.ConnectionLost || f.NotSent)
	if !lost && k.c.wants.settle(uri, err) || k.c.wants.of(uri) == unwanted {
		return
	}
	k.failed[uri] = true
	k.c.o.Logger.Debug("a subscription did not come about", k.c.o.why(err))
	if k.retry == nil {
		k.retry = time.After(k.pause.Next(time.Now()))
	}
}

// tryAgain has everything that failed looked at again.
func (k *keeper) tryAgain() {
	uris := slices.Collect(maps.Keys(k.failed))
	clear(k.failed)
	k.retry = nil
	k.c.wants.again(uris)
}

// forget begins anew, with a server that knows of no subscription.
func (k *keeper) forget() {
	clear(k.have)
	clear(k.failed)
	k.retry = nil
	k.c.wants.all()
}
