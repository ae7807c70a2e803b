package connector

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/inproc"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// watcher is a Session that records snapshots and notifications.
type watcher struct {
	noSession
	mu        sync.Mutex
	snapshots []Snapshot
	notes     []string
	changed   chan struct{} // closed and renewed with each event
}

func newWatcher() *watcher { return &watcher{changed: make(chan struct{})} }

func (w *watcher) Changed(s Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshots = append(w.snapshots, s)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) Notified(method string, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, method+" "+string(params))
}

// wait returns the first snapshot, past ones included, for which want returns true.
func (w *watcher) wait(t *testing.T, want func(Snapshot) bool) Snapshot {
	t.Helper()
	timeout := time.After(90 * time.Second)
	for {
		w.mu.Lock()
		for _, s := range w.snapshots {
			if want(s) {
				w.mu.Unlock()
				return s
			}
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("none of %d snapshots is the expected one", len(w.all()))
		}
	}
}

// all returns every snapshot so far.
func (w *watcher) all() []Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.snapshots)
}

// noted returns every notification so far.
func (w *watcher) noted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes)
}

func isReady(s Snapshot) bool { return s.State == Ready }
func isDown(s Snapshot) bool  { return s.State == Down }

// setup configures a connector with a server in this process.
type setup struct {
	Options
	Pipe inproc.StartFunc
	Era  wire.Era
}

// connector returns the connector of the setup.
func (s setup) connector() *Connector {
	o := s.Options
	o.Name = "files"
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	o.Logger = o.Logger.With(zap.String("upstream", o.Name))
	mask := o.Mask
	if mask == nil {
		mask = func(text string) string { return text }
	}
	o.Dialer = func(c *Connector) (protocol.Dialer, error) {
		return inproc.New(&protocol.Config{
			Logger: o.Logger, Mask: mask, MaxMessage: 16 << 20, Era: s.Era, Memory: new(memory),
			Info: protocol.Info{Name: "gw", Version: "7"}, Owner: owner{c}, Loops: noLoops{}, Refusals: protocol.NewRefusals(),
		}, s.Pipe), nil
	}
	return New(o)
}

// memory remembers the era of one server.
type memory struct{ era atomic.Uint32 }

func (m *memory) Era() wire.Era         { return wire.Era(m.era.Load()) }
func (m *memory) Remember(era wire.Era) { m.era.Store(uint32(era)) }

// owner is the owner of a session that all clients share.
type owner struct{ c *Connector }

func (owner) Capabilities() wire.Raw                             { return protocol.GatewayCapabilities(false) }
func (owner) RelaysRoots() bool                                  { return false }
func (owner) Principal() *call.Principal                         { return nil }
func (owner) Addressee(_ string, inFlight *call.Call) *call.Call { return inFlight }
func (owner) Task(string) *call.Call                             { return nil }
func (owner) Answered(string)                                    {}
func (owner) Refused(string)                                     {}
func (owner) ConnectionFailed()                                  {}
func (o owner) Printed(text []byte)                              { o.c.Printed(text) }
func (o owner) Skipped([]byte)                                   {}
func (o owner) Wrote(line string, isError bool)                  { o.c.Wrote(line, isError) }

// rig is a running connector.
type rig struct {
	*Connector
	watch *watcher
}

// start runs a connector until the test ends.
func start(t *testing.T, s setup) *rig {
	t.Helper()
	r := &rig{watch: newWatcher()}
	s.Session = r.watch
	r.Connector = s.connector()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// doing starts a call and returns the channel of its outcome.
func (r *rig) doing(ctx context.Context, c *call.Call) <-chan string {
	done := make(chan string, 1)
	go func() { done <- upstreamtest.Outcome(r.Do(ctx, c)) }()
	return done
}
