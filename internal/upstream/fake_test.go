package upstream

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// watcher is an Observer that records snapshots and notifications.
type watcher struct {
	mu        sync.Mutex
	snapshots []connector.Snapshot
	notes     []string
	changed   chan struct{} // closed and renewed with each event
}

func newWatcher() *watcher { return &watcher{changed: make(chan struct{})} }

func (w *watcher) Changed(s connector.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshots = append(w.snapshots, s)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watcher) Notified(_ Origin, method string, params wire.Raw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, method+" "+string(params))
	close(w.changed)
	w.changed = make(chan struct{})
}

// wait returns the first snapshot, past ones included, for which want returns true.
func (w *watcher) wait(t *testing.T, want func(connector.Snapshot) bool) connector.Snapshot {
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
			t.Fatalf("none of %d snapshots is the expected one", len(w.snapshots))
		}
	}
}

// all returns every snapshot so far.
func (w *watcher) all() []connector.Snapshot {
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

func isReady(s connector.Snapshot) bool { return s.State == connector.Ready }
func isDown(s connector.Snapshot) bool  { return s.State == connector.Down }

// updates receives resource notifications as an Observer.
type updates chan string

func (updates) Changed(connector.Snapshot) {}

func (u updates) Notified(_ Origin, method string, params wire.Raw) {
	if method == wire.NoteResourceUpdated {
		u <- string(params)
	}
}

// rig is a running connector and its watcher.
type rig struct {
	*connector.Connector
	watch *watcher
}

// start runs a connector until the test ends.
func start(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{watch: newWatcher()}
	o.Name = "files"
	o.Info = protocol.Info{Name: "gw", Version: "7"}
	o.Observer = r.watch
	r.Connector = newConnector(o)
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

// newConnector returns the connector of the shared session.
func newConnector(o Options) *connector.Connector { return o.withDefaults().newConnector(nil) }

// metric returns the sum of the series of one metric.
func metric(t *testing.T, m *connector.Metrics, name string) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, series := range f.GetMetric() {
			sum += series.GetGauge().GetValue() + series.GetCounter().GetValue()
		}
	}
	return sum
}
