package upstreamtest

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
	"mcpgateway/internal/wire"
)

// Timeout bounds each wait of a test. Only a failing test waits this long.
const Timeout = time.Minute

// Server is a fake server behind an in-process pipe. Each start makes a new
// Instance. Handle receives every message that is not a response.
type Server struct {
	mu        sync.Mutex
	instances []*Instance
	Handle    func(l *Instance, m wire.Message)
}

// Instance is one start of a Server, until its pipe closes.
type Instance struct {
	N       int // 1 for the first
	Out     *io.PipeWriter
	writing sync.Mutex

	mu       sync.Mutex
	got      []wire.Message
	arrived  chan struct{} // closed and renewed with each message
	finished chan struct{}
	Hold     chan struct{}    // blocks a handler until the test closes it
	answered map[wire.ID]bool // by Finish
}

// Pipe starts an instance. It is the server's PipeFunc.
func (s *Server) Pipe(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s.mu.Lock()
	l := &Instance{N: len(s.instances) + 1, Out: outW, arrived: make(chan struct{}), finished: make(chan struct{}), Hold: make(chan struct{})}
	s.instances = append(s.instances, l)
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
				return // a strict server ends; the line may also be cut off
			}
			l.mu.Lock()
			l.got = append(l.got, m)
			close(l.arrived)
			l.arrived = make(chan struct{})
			l.mu.Unlock()
			if !m.IsResponse() {
				s.Handle(l, m)
			}
		}
	}()
	return inW, outR, func() error { <-l.finished; return nil }
}

// Instance returns the n-th instance, counted from 1, or nil.
func (s *Server) Instance(n int) *Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.instances) < n {
		return nil
	}
	return s.instances[n-1]
}

// Starts returns the number of instances.
func (s *Server) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.instances)
}

// Methods returns the methods of the received messages, with "response" for
// responses.
func (l *Instance) Methods() []string {
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

// Wait returns the first message, past ones included, for which want returns true.
func (l *Instance) Wait(t *testing.T, want func(wire.Message) bool) wire.Message {
	t.Helper()
	timeout := time.After(Timeout)
	for {
		l.mu.Lock()
		got, arrived := slices.Clone(l.got), l.arrived
		l.mu.Unlock()
		for _, m := range got {
			if want(m) {
				return m
			}
		}
		select {
		case <-arrived:
		case <-timeout:
			t.Fatalf("the expected message is missing; the server got %v", l.Methods())
		}
	}
}

// Method matches messages with this method.
func Method(name string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.Method == name }
}

// Response matches responses with this id.
func Response(id string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.IsResponse() && m.ID.String() == id }
}

// Line writes one line.
func (l *Instance) Line(format string, args ...any) {
	l.writing.Lock()
	defer l.writing.Unlock()
	fmt.Fprintf(l.Out, format+"\n", args...)
}

// Result answers a request with a result.
func (l *Instance) Result(m wire.Message, result string) {
	l.Line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// Refuse answers a request with an error.
func (l *Instance) Refuse(m wire.Message, code int, text string) {
	l.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

// Quit closes the output, as the end of a process does.
func (l *Instance) Quit() { l.Out.Close() }

const (
	LegacyHello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`
	ModernHello = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}},"ttlMs":0,"cacheScope":"private"}`
	TwoTools    = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
)

// Legacy answers the handshake and lists as a legacy server does. It passes other
// messages to more.
func Legacy(more func(l *Instance, m wire.Message)) func(*Instance, wire.Message) {
	return func(l *Instance, m wire.Message) {
		switch m.Method {
		case wire.MethodDiscover:
			l.Refuse(m, wire.CodeMethodNotFound, "method not found")
		case wire.MethodInitialize:
			l.Result(m, LegacyHello)
		case wire.MethodToolsList:
			l.Result(m, TwoTools)
		case wire.MethodSetLevel:
			l.Result(m, `{}`)
		default:
			if more != nil {
				more(l, m)
			}
		}
	}
}

// Modern answers the handshake and lists as a modern server does. It passes other
// messages to more.
func Modern(more func(l *Instance, m wire.Message)) func(*Instance, wire.Message) {
	return func(l *Instance, m wire.Message) {
		switch m.Method {
		case wire.MethodDiscover:
			l.Result(m, ModernHello)
		case wire.MethodInitialize:
			l.Refuse(m, wire.CodeInvalidParams, "supported: 2026-07-28")
		case wire.MethodToolsList:
			l.Result(m, TwoTools)
		case wire.MethodListen:
			l.Line(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}`, m.ID)
		default:
			if more != nil {
				more(l, m)
			}
		}
	}
}

// Peer is a client's back channel that records notifications and answers asks with
// OnAsk.
type Peer struct {
	mu    sync.Mutex
	notes []string
	OnAsk func(ctx context.Context, method string, params wire.Raw) (wire.Raw, error)
}

func (p *Peer) Notify(method string, params wire.Raw) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, method+" "+string(params))
}

func (p *Peer) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	if p.OnAsk == nil {
		return nil, errors.New("no ask expected")
	}
	return p.OnAsk(ctx, method, params)
}

// Got returns the recorded notifications.
func (p *Peer) Got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

// ToolCall returns a tool call of the client with this key.
func ToolCall(tool, key string, back call.BackChannel) *call.Call {
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

// Finish answers a request.
func (l *Instance) Finish(m wire.Message) {
	l.mu.Lock()
	if l.answered == nil {
		l.answered = make(map[wire.ID]bool)
	}
	l.answered[m.ID] = true
	l.mu.Unlock()
	l.Result(m, `{"ok":1}`)
}

// Answered reports whether Finish has answered a request.
func (l *Instance) Answered(id wire.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered[id]
}

// Ended reports whether the gateway has noticed the end of the instance.
func (l *Instance) Ended() bool {
	select {
	case <-l.finished:
		return true
	default:
		return false
	}
}

// WaitEnd returns when the gateway has noticed the end of the n-th instance.
func (s *Server) WaitEnd(t *testing.T, n int) {
	t.Helper()
	select {
	case <-s.Instance(n).finished:
	case <-time.After(Timeout):
		t.Fatal("the gateway does not notice the end of the server")
	}
}

// Calls returns the number of tool calls that all instances received.
func (s *Server) Calls() int {
	sent := 0
	for n := range s.Starts() {
		for _, method := range s.Instance(n + 1).Methods() {
			if method == wire.MethodToolsCall {
				sent++
			}
		}
	}
	return sent
}

// Received returns the received messages.
func (l *Instance) Received() []wire.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

// Outcome returns the result or the error of Do as one string.
func Outcome(r call.Result, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return string(r.Raw) + r.Extra
}

// DataOf returns the data of the error that Do returned.
func DataOf(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != wire.CodeInternal {
		t.Fatalf("error %v, want one with code %d", err, wire.CodeInternal)
	}
	return string(e.Data)
}

// Equal reports an error unless got equals want.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Echo answers each tool call.
func Echo(l *Instance, m wire.Message) {
	if m.Method == wire.MethodToolsCall {
		l.Result(m, `{"ok":1}`)
	}
}
