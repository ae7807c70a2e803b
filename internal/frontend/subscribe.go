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

// Subscriptions bring updates of resources. Subscribe is called by many
// goroutines at once.
//
// deliver gets the URI of each resource that changes, which is public or a part
// of it, and the params of the notification. It does not block, and may be
// called until cancel has returned and once more while it does. cancel does not
// block. The error is a *wire.Error, or that of ctx.
type Subscriptions interface {
	Subscribe(ctx context.Context, c *call.Call, public string, deliver func(uri string, params wire.Raw)) (cancel func(), err error)
}

const (
	// maxSubscribed bounds the resources that one session or one listen request
	// subscribes to, and maxSubscribedURI the length of their URIs.
	maxSubscribed    = 1000
	maxSubscribedURI = 8 << 10
	// subscribeWithin bounds how long a listen request waits for upstreams
	// before it is acknowledged.
	subscribeWithin = 5 * time.Second
	// subscribeAtOnce bounds the upstreams that one listen request asks at once.
	subscribeAtOnce = 16
)

// subscribe answers resources/subscribe and resources/unsubscribe of a legacy
// client (2025-11-25, server/resources, "Subscriptions"). To unsubscribe from
// what it has not subscribed to is no error.
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
		return answer{result: done}
	}
	switch subscribed, full := x.sess.IsSubscribed(uri); {
	case subscribed:
		return answer{result: done}
	case full:
		return answer{err: wire.Errorf(wire.CodeInternal, "the session has subscribed to %d resources, which is as many as it may", session.MaxSubscriptions)}
	}
	sess := x.sess
	cancel, err := x.s.options.Subscriptions.Subscribe(x.ctx, &x.call, uri, func(changed string, params wire.Raw) {
		sess.NotifyUpdate(stream.ResourceUpdate{Subscribed: uri, URI: changed, Params: params})
	})
	if err == nil {
		err = sess.AddSubscription(uri, cancel)
	}
	return x.outcome(done, err)
}

// subscribe subscribes to the resources that a listen request names, and keeps
// those that it could: what upstreams refuse, what policy refuses and what does
// not exist is left out, and so is what takes too long.
func (s *Server) subscribeResources(x *exchange, sub *subscription) {
	x.notifyEnded.Store(true) // what upstreams say meanwhile has no place on a listen stream
	sub.who, sub.client = x.call.Principal, x.call.Client
	asked := requestedResources(x.call.Params)
	if s.options.Subscriptions == nil || len(asked) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(x.ctx, subscribeWithin)
	defer stop()
	cancels := make([]func(), len(asked)) // nil where there is no subscription
	slots := make(chan struct{}, subscribeAtOnce)
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

// resourcesOf returns the resources that a listen request asks for, each once
// and not more than there may be.
func requestedResources(params wire.Raw) []string {
	var out []string
	seen := make(map[string]bool)
	for el := range wire.ValueOf(params).Get("notifications", "resourceSubscriptions").Elements() {
		uri, ok := el.Text()
		if ok && len(uri) <= maxSubscribedURI && !seen[uri] && len(out) < session.MaxSubscriptions {
			seen[uri] = true
			out = append(out, uri)
		}
	}
	return out
}
