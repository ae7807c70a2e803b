package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// fakeServer is a server at the other end of an in-process pipe. Each start is
// a new life; its handler gets every message that is no response.
type fakeServer struct {
	mu     sync.Mutex
	lives  []*fakeLife
	handle func(l *fakeLife, m wire.Message)
}

// fakeLife is one conversation with a fakeServer.
type fakeLife struct {
	n       int // 1 for the first
	out     *io.PipeWriter
	writing sync.Mutex

	mu       sync.Mutex
	got      []wire.Message
	arrived  chan struct{} // closed and renewed with each message
	finished chan struct{}
	hold     chan struct{} // for a handler that is to read no further until a test closes it
}

// pipe is the server's PipeFunc.
func (s *fakeServer) pipe(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s.mu.Lock()
	l := &fakeLife{n: len(s.lives) + 1, out: outW, arrived: make(chan struct{}), finished: make(chan struct{}), hold: make(chan struct{})}
	s.lives = append(s.lives, l)
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { inR.Close() })
	go func() {
		defer close(l.finished)
		defer stop()
		defer outW.Close()
		defer inR.Close()
		lines := wire.NewLineReader(inR, 16<<20)
		for {
			line, err := lines.Next()
			if err != nil {
				return
			}
			m, err := wire.Parse(line, wire.Limits{})
			if err != nil {
				return // as a strict server might, also for a line that the end cut off
			}
			l.mu.Lock()
			l.got = append(l.got, m)
			close(l.arrived)
			l.arrived = make(chan struct{})
			l.mu.Unlock()
			if !m.IsResponse() {
				s.handle(l, m)
			}
		}
	}()
	return inW, outR, func() error { <-l.finished; return nil }
}

// life returns the n-th conversation, counted from 1, nil when there was none.
func (s *fakeServer) life(n int) *fakeLife {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lives) < n {
		return nil
	}
	return s.lives[n-1]
}

func (s *fakeServer) starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lives)
}

// methods returns what the life has got, responses as "response".
func (l *fakeLife) methods() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, m := range l.got {
		if m.IsResponse() {
			out = append(out, "response")
		} else {
			out = append(out, m.Method)
		}
	}
	return out
}

// wait returns the first message for which want returns true, also when it has
// arrived already.
func (l *fakeLife) wait(t *testing.T, want func(wire.Message) bool) wire.Message {
	t.Helper()
	timeout := time.After(testTime)
	for {
		l.mu.Lock()
		for _, m := range l.got {
			if want(m) {
				l.mu.Unlock()
				return m
			}
		}
		arrived := l.arrived
		l.mu.Unlock()
		select {
		case <-arrived:
		case <-timeout:
			t.Fatalf("the server did not get what it waits for, but %v", l.methods())
		}
	}
}

func method(name string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.Method == name }
}

func response(id string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.IsResponse() && m.ID.String() == id }
}

// line writes one line.
func (l *fakeLife) line(format string, args ...any) {
	l.writing.Lock()
	defer l.writing.Unlock()
	fmt.Fprintf(l.out, format+"\n", args...)
}

func (l *fakeLife) result(m wire.Message, result string) {
	l.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (l *fakeLife) refuse(m wire.Message, code int, text string) {
	l.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

// quit ends the life as a process that exits does.
func (l *fakeLife) quit() { l.out.Close() }

const (
	legacyHello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`
	modernHello = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}},"ttlMs":0,"cacheScope":"private"}`
	twoTools    = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
)

// legacy answers as a legacy server does; more handles what it does not, and
// tools/call.
func legacy(more func(l *fakeLife, m wire.Message)) func(*fakeLife, wire.Message) {
	return func(l *fakeLife, m wire.Message) {
		switch m.Method {
		case wire.MethodDiscover:
			l.refuse(m, wire.CodeMethodNotFound, "method not found")
		case wire.MethodInitialize:
			l.result(m, legacyHello)
		case wire.MethodToolsList:
			l.result(m, twoTools)
		case wire.MethodSetLevel:
			l.result(m, `{}`)
		default:
			if more != nil {
				more(l, m)
			}
		}
	}
}

// modern answers as a modern server does.
func modern(more func(l *fakeLife, m wire.Message)) func(*fakeLife, wire.Message) {
	return func(l *fakeLife, m wire.Message) {
		switch m.Method {
		case wire.MethodDiscover:
			l.result(m, modernHello)
		case wire.MethodInitialize:
			l.refuse(m, wire.CodeInvalidParams, "supported: 2026-07-28")
		case wire.MethodToolsList:
			l.result(m, twoTools)
		case wire.MethodListen:
			l.line(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, m.ID)
		default:
			if more != nil {
				more(l, m)
			}
		}
	}
}

// watcher is an Observer that remembers.
type watcher struct {
	mu      sync.Mutex
	shots   []connector.Snapshot
	notes   []string
	changed chan struct{} // closed and renewed with each event
}

func newWatcher() *watcher { return &watcher{changed: make(chan struct{})} }

func (w *watcher) Changed(s connector.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shots = append(w.shots, s)
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

// wait returns the first snapshot, past ones too, for which want returns true.
func (w *watcher) wait(t *testing.T, want func(connector.Snapshot) bool) connector.Snapshot {
	t.Helper()
	timeout := time.After(90 * time.Second)
	for {
		w.mu.Lock()
		for _, s := range w.shots {
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
			t.Fatalf("no snapshot among %d is as it should be", len(w.shots))
		}
	}
}

// all returns every snapshot so far.
func (w *watcher) all() []connector.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.shots)
}

// noted returns every notification so far.
func (w *watcher) noted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes)
}

func isReady(s connector.Snapshot) bool { return s.State == connector.Ready }
func isDown(s connector.Snapshot) bool  { return s.State == connector.Down }

// rig is a connector at work.
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

// peer is a client's back channel that remembers notifications and answers asks.
type peer struct {
	mu    sync.Mutex
	notes []string
	ask   func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)
}

func (p *peer) Notify(method string, params wire.Raw) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, method+" "+string(params))
}

func (p *peer) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	if p.ask == nil {
		return nil, errors.New("no ask expected")
	}
	return p.ask(ctx, method, params)
}

func (p *peer) got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

// toolCall is a call of a tool by the client with this key.
func toolCall(tool, key string, back call.BackChannel) *call.Call {
	return &call.Call{
		ID: "c1", Method: wire.MethodToolsCall, Params: wire.Raw(`{"name":"` + tool + `","arguments":{"n":1}}`),
		Principal: call.Anonymous, Back: back,
		Client: &call.Client{
			Key: key, Revision: wire.Rev20251125,
			Info:         wire.Raw(`{"name":"host","version":"3"}`),
			Capabilities: wire.Raw(`{"elicitation":{},"sampling":{"context":{}}}`),
		},
	}
}

// newConnector returns the connector of the only session with these options.
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
