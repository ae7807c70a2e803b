package upstream

import (
	"context"
	"sync"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// onlyClientTime is how long the first sessions with upstreams wait for the client.
// Hosts send initialize immediately.
const onlyClientTime = 2 * time.Second

// OnlyClient is the client of a gateway that serves just one, over standard input and
// output. Each upstream then has a single session, which is that client's and gathers
// the catalog too. Its methods may be called concurrently.
type OnlyClient struct {
	waiting sync.Once     // starts the time in which the client is waited for
	ready   chan struct{} // closed when the client is known, or that time is over
	askable chan struct{} // closed when the client may be asked

	mu     sync.Mutex
	client *call.Client // nil while it is not known
	over   bool         // ready is closed
	set    bool         // askable is closed
}

// NewOnlyClient returns an OnlyClient that is not known yet.
func NewOnlyClient() *OnlyClient {
	return &OnlyClient{ready: make(chan struct{}), askable: make(chan struct{})}
}

// Introduce says who the client is and what it can do, before it may be asked: its
// initialize is answered when its upstreams have described themselves. Only the first
// call counts, and none after Set.
func (o *OnlyClient) Introduce(c *call.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.client == nil {
		o.client = c
		o.end()
	}
}

// Set says who the client is, and that it may be asked. Only the first call counts.
func (o *OnlyClient) Set(c *call.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.set {
		o.client, o.set = c, true
		close(o.askable)
		o.end()
	}
}

// mayAsk reports whether the client may be asked.
func (o *OnlyClient) mayAsk() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.set
}

// heldBackChannel holds asks back until the only client may be asked. An ask that the client did
// not declare is answered without it.
type heldBackChannel struct {
	call.BackChannel
	client *call.Client
	only   *OnlyClient
}

// Ask implements [call.BackChannel].
func (h heldBackChannel) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	if !h.client.Can(wire.MethodOf(method).Capability) {
		return h.BackChannel.Ask(ctx, method, params)
	}
	select {
	case <-h.only.askable:
		return h.BackChannel.Ask(ctx, method, params)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// end ends all waiting. The caller holds mu.
func (o *OnlyClient) end() {
	if !o.over {
		o.over = true
		close(o.ready)
	}
}

// wait returns the client, or nil if it is not known in time.
func (o *OnlyClient) wait(ctx context.Context) *call.Client {
	o.waiting.Do(func() {
		time.AfterFunc(onlyClientTime, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.end()
		})
	})
	select {
	case <-o.ready:
	case <-ctx.Done():
	}
	return o.known()
}

// known returns the client, or nil if it is not known yet.
func (o *OnlyClient) known() *call.Client {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.client
}
