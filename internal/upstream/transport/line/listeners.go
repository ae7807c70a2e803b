package line

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// listeners are the subscriptions with a modern server over lines: one to the changes of
// lists, and one to each resource. Some servers (Go SDK 1.8) note subscriptions by
// connection: when one ends, they forget its resources even if another subscription has
// the same ones. Over lines all subscriptions share one connection, so no two of them
// have the same resource. Over HTTP a single protocol.Listener is enough.
type listeners struct {
	lists *protocol.Listener
	fresh func(in protocol.NotificationSink) *protocol.Listener // makes a Listener that is not open
	in    protocol.NotificationSink

	ctx     context.Context // of run
	running chan struct{}   // closed when ctx is set

	mu    sync.Mutex // held during wg.Go
	ended bool       // run is about to return
	wg    sync.WaitGroup

	byResource map[string]*resourceListener // by resource; belongs to the goroutine that calls listen
}

// resourceListener is the subscription to one resource.
type resourceListener struct {
	*protocol.Listener
	stop    context.CancelFunc
	refused atomic.Bool // the server has ended it permanently
}

// forResource is the sink of a subscription to one resource.
type forResource struct {
	protocol.NotificationSink
	refused *atomic.Bool
}

// Renewed implements protocol.NotificationSink. It means that the server has ended the
// subscription permanently.
func (i forResource) Renewed() {
	i.refused.Store(true)
	i.NotificationSink.Renewed()
}

func newListeners(in protocol.NotificationSink, fresh func(in protocol.NotificationSink) *protocol.Listener) *listeners {
	return &listeners{
		lists: fresh(in), fresh: fresh, in: in,
		running: make(chan struct{}), byResource: make(map[string]*resourceListener),
	}
}

// begin subscribes to changes of the lists in the capabilities of the server, so that the
// request precedes any request for a list.
func (f *listeners) begin(ctx context.Context, capabilities wire.Raw) error {
	f.lists.Lists = protocol.ListFilter(capabilities)
	return f.lists.Begin(ctx)
}

// run keeps the subscriptions open until ctx ends, and returns when they have ended. It is
// called once.
func (f *listeners) run(ctx context.Context) {
	f.ctx = ctx
	close(f.running)
	f.lists.Run(ctx)
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.wg.Wait()
}

// listen implements the method Listen of [protocol.Conn].
func (f *listeners) listen(ctx context.Context, uris []string) ([]string, error) {
	select {
	case <-f.running:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	wanted := make(map[string]bool, len(uris))
	var fresh []string
	for _, uri := range uris {
		wanted[uri] = true
		if have := f.byResource[uri]; have == nil || have.refused.Load() {
			fresh = append(fresh, uri)
		}
	}
	opened, err := f.openAll(ctx, fresh)
	if err != nil {
		return nil, err
	}
	for uri, have := range f.byResource {
		if !wanted[uri] || opened[uri] != nil {
			have.stop()
			delete(f.byResource, uri)
		}
	}
	for uri, one := range opened {
		f.byResource[uri] = one
	}
	honored := make([]string, 0, len(f.byResource))
	for uri := range f.byResource {
		honored = append(honored, uri)
	}
	return honored, nil
}

// maxOpening bounds the subscriptions that are opened at the same time.
const maxOpening = 16

// openAll subscribes to resources, and returns the acknowledged subscriptions. On errors
// it stops all of them.
func (f *listeners) openAll(ctx context.Context, uris []string) (map[string]*resourceListener, error) {
	var mu sync.Mutex
	opened := make(map[string]*resourceListener)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxOpening)
	for _, uri := range uris {
		group.Go(func() error {
			one, err := f.open(groupCtx, uri)
			if one != nil {
				mu.Lock()
				defer mu.Unlock()
				opened[uri] = one
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		for _, one := range opened {
			one.stop()
		}
		return nil, err
	}
	return opened, nil
}

// open subscribes to one resource. It returns nil if the acknowledgement omits the
// resource.
func (f *listeners) open(ctx context.Context, uri string) (*resourceListener, error) {
	one := &resourceListener{}
	one.Listener = f.fresh(forResource{f.in, &one.refused})
	if !f.keepOpen(one) {
		return nil, &protocol.CallError{Reason: protocol.ReasonConnectionLost, NotSent: true, ConnectionLost: true}
	}
	honored, err := one.Listen(ctx, []string{uri})
	if err != nil || len(honored) == 0 {
		one.stop()
		return nil, err
	}
	return one, nil
}

// keepOpen keeps a subscription open until it is stopped or run ends. It returns false if
// run has ended.
func (f *listeners) keepOpen(one *resourceListener) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	var life context.Context
	life, one.stop = context.WithCancel(f.ctx)
	f.wg.Go(func() { one.Run(life) })
	return true
}
