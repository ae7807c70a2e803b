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

// Timeout bounds each wait of a test. Only a test that fails waits so long.
const Timeout = time.Minute

// Server is a server at the other end of an in-process pipe. Each start is
// a new life; its handler gets every message that is no response.
type Server struct {
	mu     sync.Mutex
	lives  []*Life
	Handle func(l *Life, m wire.Message)
}

// Life is one conversation with a Server.
type Life struct {
	N       int // 1 for the first
	Out     *io.PipeWriter
	writing sync.Mutex

	mu       sync.Mutex
	got      []wire.Message
	arrived  chan struct{} // closed and renewed with each message
	finished chan struct{}
	Hold     chan struct{}    // for a handler that is to read no further until a test closes it
	answered map[wire.ID]bool // by Finish
}

// pipe is the server's PipeFunc.
func (s *Server) Pipe(ctx context.Context) (io.WriteCloser, io.ReadCloser, func() error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s.mu.Lock()
	l := &Life{N: len(s.lives) + 1, Out: outW, arrived: make(chan struct{}), finished: make(chan struct{}), Hold: make(chan struct{})}
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
				s.Handle(l, m)
			}
		}
	}()
	return inW, outR, func() error { <-l.finished; return nil }
}

// life returns the n-th conversation, counted from 1, nil when there was none.
func (s *Server) Life(n int) *Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lives) < n {
		return nil
	}
	return s.lives[n-1]
}

func (s *Server) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lives)
}

// methods returns what the life has got, responses as "response".
func (l *Life) Methods() []string {
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
func (l *Life) Wait(t *testing.T, want func(wire.Message) bool) wire.Message {
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
			t.Fatalf("the server did not get what it waits for, but %v", l.Methods())
		}
	}
}

func Method(name string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.Method == name }
}

func Response(id string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.IsResponse() && m.ID.String() == id }
}

// line writes one line.
func (l *Life) Line(format string, args ...any) {
	l.writing.Lock()
	defer l.writing.Unlock()
	fmt.Fprintf(l.Out, format+"\n", args...)
}

func (l *Life) Result(m wire.Message, result string) {
	l.Line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (l *Life) Refuse(m wire.Message, code int, text string) {
	l.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

// quit ends the life as a process that exits does.
func (l *Life) Quit() { l.Out.Close() }

const (
	LegacyHello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`
	ModernHello = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}},"ttlMs":0,"cacheScope":"private"}`
	TwoTools    = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
)

// legacy answers as a legacy server does; more handles what it does not, and
// tools/call.
func Legacy(more func(l *Life, m wire.Message)) func(*Life, wire.Message) {
	return func(l *Life, m wire.Message) {
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

// modern answers as a modern server does.
func Modern(more func(l *Life, m wire.Message)) func(*Life, wire.Message) {
	return func(l *Life, m wire.Message) {
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

// Peer is a client's back channel that remembers notifications and answers asks.
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

func (p *Peer) Got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

// ToolCall is a call of a tool by the client with this key.
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
func (l *Life) Finish(m wire.Message) {
	l.mu.Lock()
	if l.answered == nil {
		l.answered = make(map[wire.ID]bool)
	}
	l.answered[m.ID] = true
	l.mu.Unlock()
	l.Result(m, `{"ok":1}`)
}

// Answered reports whether Finish has answered a request.
func (l *Life) Answered(id wire.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered[id]
}

// WaitEnd returns when the gateway has noticed the end of the n-th life.
func (s *Server) WaitEnd(t *testing.T, n int) {
	t.Helper()
	select {
	case <-s.Life(n).finished:
	case <-time.After(Timeout):
		t.Fatal("the gateway does not notice that the server has gone")
	}
}

// Calls is how many calls of tools the server has got, in all its lives.
func (s *Server) Calls() int {
	sent := 0
	for n := range s.Starts() {
		for _, method := range s.Life(n + 1).Methods() {
			if method == wire.MethodToolsCall {
				sent++
			}
		}
	}
	return sent
}

// Received returns the messages that the life has got.
func (l *Life) Received() []wire.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

// Outcome is what Do returned, as one string.
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

// Equal reports an error unless both are equal.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Echo answers each call of a tool.
func Echo(l *Life, m wire.Message) {
	if m.Method == wire.MethodToolsCall {
		l.Result(m, `{"ok":1}`)
	}
}
