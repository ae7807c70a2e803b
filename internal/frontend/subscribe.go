package frontend

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/frontend/session"
	"mcpgateway/internal/frontend/stream"
	"mcpgateway/internal/wire"
)

// Subscriptions deliver updates of resources. Its methods are called concurrently.
type Subscriptions interface {
	// Subscribe subscribes to the resource with a public URI. The error is a
	// *wire.Error, or that of ctx. deliver is called with the URI of each resource that
	// changes, which is the public one or a part of it, and with the params of the
	// notification. It may be called until cancel returns. Neither deliver nor cancel
	// may block.
	Subscribe(ctx context.Context, c *call.Call, public string, deliver func(uri string, params wire.Raw)) (cancel func(), err error)
}

const (
	// maxSubscribedURI bounds the length of the URIs that clients subscribe to.
	maxSubscribedURI = 8 << 10
	// subscribeTimeout bounds how long a listen request waits for upstreams before it
	// is acknowledged.
	subscribeTimeout = 5 * time.Second
	// subscribeConcurrency bounds the concurrent subscriptions of one listen request.
	subscribeConcurrency = 16
)

// answerSubscribe answers resources/subscribe and resources/unsubscribe of a legacy
// client (2025-11-25, server/resources, "Subscriptions"). It is not an error to
// unsubscribe from a resource without a subscription.
func (x *exchange) answerSubscribe() answer {
	if x.s.options.Subscriptions == nil {
		return x.run()
	}
	uri, ok := wire.ValueOf(x.call.Params).Get("uri").Text()
	switch {
	case !ok:
		return answer{err: wire.Errorf(wire.CodeInvalidParams, "%s: params.uri must be a string", x.call.Method)}
	case len(uri) > maxSubscribedURI:
		return answer{err: wire.Errorf(wire.CodeInvalidParams, "%s: params.uri is longer than %d bytes", x.call.Method, maxSubscribedURI)}
	case x.sess == nil:
		return answer{err: wire.Errorf(wire.CodeInvalidRequest, "invalid request: %s needs a session, which initialize begins", x.call.Method)}
	}
	done := call.Result{Raw: wire.Raw(`{}`)}
	if x.call.Method == wire.MethodResourcesUnsub {
		x.sess.Unsubscribe(uri)
		x.s.share(&x.scope, x.sess, session.Change{Unsubscribed: uri})
		return answer{result: done}
	}
	switch subscribed, full := x.sess.IsSubscribed(uri); {
	case subscribed:
		return answer{result: done}
	case full:
		return answer{err: wire.Errorf(wire.CodeInternal, "the session has subscribed to %d resources, and may not have more subscriptions", session.MaxSubscriptions)}
	}
	sess := x.sess
	cancel, err := x.s.options.Subscriptions.Subscribe(&x.scope, &x.call, uri, func(changed string, params wire.Raw) {
		sess.NotifyUpdate(stream.ResourceUpdate{Subscribed: uri, URI: changed, Params: params})
	})
	if err == nil {
		err = sess.AddSubscription(uri, cancel)
	}
	if err == nil {
		x.s.share(&x.scope, sess, session.Change{Subscribed: uri})
	}
	return x.outcome(done, err)
}

// subscribeResources subscribes to the resources that a listen request names. It leaves
// out the resources that do not exist, that policy or the upstream refuses, and that
// take too long.
func (s *Server) subscribeResources(x *exchange, sub *subscription) {
	x.notifyEnded.Store(true) // a listen stream carries no notifications of its own request
	sub.principal, sub.client = x.call.Principal, x.call.Client
	asked := requestedResources(x.call.Params)
	if s.options.Subscriptions == nil || len(asked) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(&x.scope, subscribeTimeout)
	defer stop()
	cancels := make([]func(), len(asked)) // nil if there is no subscription
	slots := make(chan struct{}, subscribeConcurrency)
	var wg sync.WaitGroup
	for i, uri := range asked {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			cancel, err := s.options.Subscriptions.Subscribe(ctx, &x.call, uri, func(changed string, params wire.Raw) {
				sub.update(stream.ResourceUpdate{Subscribed: uri, URI: changed, Params: params})
			})
			if err == nil {
				cancels[i] = cancel
			}
		})
	}
	wg.Wait()
	for i, cancel := range cancels {
		if cancel != nil {
			sub.resources = append(sub.resources, asked[i])
			sub.cancels = append(sub.cancels, cancel)
		}
	}
}

// requestedResources returns the resources that a listen request names, each once, and
// at most as many as are allowed.
func requestedResources(params wire.Raw) []string {
	var out []string
	seen := make(map[string]bool)
	for el := range wire.ValueOf(params).Get("notifications", memberResources).Elements() {
		uri, ok := el.Text()
		if ok && len(uri) <= maxSubscribedURI && !seen[uri] && len(out) < session.MaxSubscriptions {
			seen[uri] = true
			out = append(out, uri)
		}
	}
	return out
}
