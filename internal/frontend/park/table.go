package park

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcpgateway/internal/bridge"
	"mcpgateway/internal/call"
	"mcpgateway/internal/fairshare"
	"mcpgateway/internal/ratelog"
	"mcpgateway/internal/wire"
)

// Causes with which calls end, see context.Cause.
var (
	// ErrAbandoned means that the last request that waited for the call has gone.
	ErrAbandoned error = call.ClientGone("the client is gone or does not read")
	// ErrExpired means that the client did not come back to a parked call in time.
	ErrExpired = errors.New("the client did not come back in time")
)

// Request is a request of a client that waits for a call: the first one, or a retry.
type Request interface {
	// Call returns what the client has sent. It is not changed.
	Call() *call.Call
	// Context ends when the client has cancelled the request, or is gone.
	Context() context.Context
	// Notify sends a notification to the client.
	Notify(method string, params wire.Raw)
	// EndNotify says that only the response follows: a later Notify does nothing.
	EndNotify()
}

// Handler handles a call. Its context ends when no client can get the result.
type Handler func(ctx context.Context, c *call.Call) (call.Result, error)

// Options configure a [Table]. All but Pass are required.
type Options struct {
	Sealer  *bridge.Sealer // seals the states
	Replica string         // the name of this process among those that share the sealer's keys
	// MaxPerClient bounds the parked calls of one client, Max those of all clients.
	MaxPerClient, Max int
	// TTL returns how long a client may take to come back.
	TTL func() time.Duration
	// Permit says whether a retry may be made now: nil, the error for the client, or that of ctx.
	Permit func(context.Context, *call.Call) error
	// Pass passes a permitted retry to the replica that holds its call, where
	// [Table.ResumePassed] continues it. Nil refuses such retries.
	Pass   func(ctx context.Context, replica string, c *call.Call) (call.Result, error)
	Gauge  prometheus.Gauge // counts the parked calls
	Logger *ratelog.Logger
}

// Table holds the calls that may be parked, and counts their goroutines.
type Table struct {
	options Options
	slots   *fairshare.Budget

	mu       sync.Mutex
	running  map[*parkable]struct{}
	byID     map[string]*parkable // calls that have been parked, by their ids
	draining bool                 // no further calls are parked
	stopped  error                // why no more calls begin
	wg       sync.WaitGroup
}

// NewTable returns an empty table.
func NewTable(o Options) *Table {
	return &Table{
		options: o,
		slots:   fairshare.New(int64(o.Max), int64(o.MaxPerClient)),
		running: make(map[*parkable]struct{}),
		byID:    make(map[string]*parkable),
	}
}

// start runs f, for k, on a goroutine that Wait waits for. The error is that of Stop.
func (t *Table) start(k *parkable, f func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped != nil {
		return t.stopped
	}
	t.running[k] = struct{}{}
	t.wg.Go(f)
	return nil
}

// done removes a call whose handler has returned from those that Stop ends.
func (t *Table) done(k *parkable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, k)
}

// admit reports whether a call may be parked. A call that was not parked before takes
// a slot, until remove.
func (t *Table) admit(k *parkable) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.draining {
		return false
	}
	if _, ok := t.byID[k.id]; ok {
		return true
	}
	if t.slots.Acquire(k.share(), 1) != nil {
		return false
	}
	if k.id == "" {
		k.id = rand.Text()
	}
	t.byID[k.id] = k
	return true
}

// remove removes a call that can no longer be resumed.
func (t *Table) remove(k *parkable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.byID[k.id]; ok {
		delete(t.byID, k.id)
		t.slots.Release(k.share(), 1)
	}
}

func (t *Table) get(id string) *parkable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// Drain ends the parked calls, and parks no further calls. Calls that a request waits for
// continue.
func (t *Table) Drain(cause error) {
	t.mu.Lock()
	t.draining = true
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, k := range all {
		k.endParked(cause)
	}
}

// Stop ends all calls, and lets no further calls begin. It does not wait for handlers.
func (t *Table) Stop(cause error) {
	t.Drain(cause)
	t.mu.Lock()
	t.stopped = cause
	all := slices.Collect(maps.Keys(t.running))
	t.mu.Unlock()
	for _, k := range all {
		k.scope.Cancel(cause)
	}
}

// Wait waits until the handlers of all calls have returned. Stop must have been
// called.
func (t *Table) Wait() { t.wg.Wait() }
