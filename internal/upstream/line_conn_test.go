package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/connector"
	"mcpgateway/internal/upstream/transport/line"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// doing starts a call and returns the channel of its outcome.
func (r *rig) doing(ctx context.Context, c *call.Call) <-chan string {
	done := make(chan string, 1)
	go func() { done <- upstreamtest.Outcome(r.Do(ctx, c)) }()
	return done
}

func TestCallParams(t *testing.T) {
	const echoed = `{"name":"echo","big":12345678901234567890,"x":{"b":1,"a":2}`
	plain := func() *call.Call { return upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}) }
	with := func(params string, level wire.Level) *call.Call {
		c := plain().With(wire.Raw(params))
		c.LogLevel = level
		return c
	}
	for _, tt := range []struct {
		name   string
		handle func(func(*upstreamtest.Instance, wire.Message)) func(*upstreamtest.Instance, wire.Message)
		call   *call.Call
		want   string // %s is the request's id
	}{
		{"legacy: as they came", upstreamtest.Legacy, with(echoed+`}`, wire.LevelInfo), echoed + `}`},
		{"legacy: fresh token", upstreamtest.Legacy, with(echoed+`,"_meta":{"progressToken":"tok","k":1}}`, 0), echoed + `,"_meta":{"progressToken":%s,"k":1}}`},
		{"modern: metadata", upstreamtest.Modern, with(echoed+`}`, 0), echoed + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"host","version":"3"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}}}`},
		{"modern: among other metadata", upstreamtest.Modern, with(`{"_meta":{"progressToken":7,"k":1}}`, wire.LevelWarning), `{"_meta":{"progressToken":%s,"k":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"host","version":"3"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}},"io.modelcontextprotocol/logLevel":"warning"}}`},
		{"line breaks do not break the line", upstreamtest.Legacy, with("{\n\"name\":\r\n\"echo\"}", 0), "{ \"name\":  \"echo\"}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: tt.handle(func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodToolsCall {
						l.Line(`{"jsonrpc":"2.0","id":%s,"result":{"z":1.50,"content":[]},"extra":true}`, m.ID)
					}
				})}
				r := start(t, Options{Server: Server{Pipe: s.Pipe}})
				r.watch.wait(t, isReady)
				if got := upstreamtest.Outcome(r.Do(t.Context(), tt.call)); got != `{"z":1.50,"content":[]}"extra":true` {
					t.Errorf("outcome %s", got)
				}
				m := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall))
				if want := strings.ReplaceAll(tt.want, "%s", m.ID.String()); string(m.Params) != want {
					t.Errorf("params\n%s, want\n%s", m.Params, want)
				}
			})
		})
	}
}

func TestServerErrorPasses(t *testing.T) {
	s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
		if m.Method == wire.MethodToolsCall {
			l.Line(`{"jsonrpc":"2.0","id":%s,"error":{"data":{"x":1.0},"code":-32001,"message":"no","own":true}}`, m.ID)
		}
	})}
	r := start(t, Options{Server: Server{Pipe: s.Pipe}})
	_, err := r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
	refusal, ok := errors.AsType[*wire.Error](err)
	if want := `{"data":{"x":1.0},"code":-32001,"message":"no","own":true}`; !ok || string(refusal.Append(nil)) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestProgressAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method != wire.MethodToolsCall {
				return
			}
			progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":%s,"more":[1]}}`
			l.Line(progress, m.ID)
			l.Line(progress, "999")   // of an unknown call
			l.Line(progress, `"tok"`) // the client's own token, which the server does not know
			l.Line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"too much"}}`)
			l.Line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"oh"}}`)
			l.Result(m, `{"content":[]}`)
			l.Line(progress, m.ID) // too late
		})}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}})
		r.watch.wait(t, isReady)
		back := &upstreamtest.Peer{}
		c := upstreamtest.ToolCall("echo", "a", back).With(wire.Raw(`{"name":"echo","_meta":{"progressToken":"tok"}}`))
		c.LogLevel = wire.LevelInfo
		if got := upstreamtest.Outcome(r.Do(t.Context(), c)); got != `{"content":[]}` {
			t.Errorf("outcome %s", got)
		}
		synctest.Wait()
		want := []string{
			`notifications/progress {"progress":1,"progressToken":"tok","more":[1]}`,
			`notifications/message {"level":"error","data":"oh"}`,
		}
		if got := back.Got(); !slices.Equal(got, want) {
			t.Errorf("the client got %q, want %q", got, want)
		}
	})
}

// A log message that may belong to two clients goes to neither.
func TestLogsOfUnknownOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		a, b := &upstreamtest.Peer{}, &upstreamtest.Peer{}
		first := upstreamtest.ToolCall("echo", "a", a)
		first.LogLevel = wire.LevelDebug
		second := upstreamtest.ToolCall("echo", "b", b)
		second.LogLevel = wire.LevelDebug
		d1, d2 := r.doing(ctx, first), r.doing(ctx, second)
		synctest.Wait()
		s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"whose?"}}`)
		s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`)
		synctest.Wait()
		if len(a.Got())+len(b.Got()) != 0 {
			t.Errorf("clients got %q and %q", a.Got(), b.Got())
		}
		want := []string{
			`notifications/message {"level":"error","data":"whose?"}`,
			`notifications/resources/updated {"uri":"file:///a"}`,
		}
		if got := r.watch.noted(); !slices.Equal(got, want) {
			t.Errorf("the observer got %q, want %q", got, want)
		}
		cancel()
		<-d1
		<-d2
	})
}

func TestCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.NoteCancelled { // the server answers too late
				l.Line(`{"jsonrpc":"2.0","id":%s,"result":{}}`, wire.ValueOf(m.Params).Get("requestId").Raw())
			}
		})}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		done := r.doing(ctx, upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
		m := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall))
		cancel()
		if got := <-done; got != "error: context canceled" {
			t.Errorf("outcome %s", got)
		}
		note := s.Instance(1).Wait(t, upstreamtest.Method(wire.NoteCancelled))
		if want := `{"requestId":` + m.ID.String() + `}`; string(note.Params) != want {
			t.Errorf("cancelled with %s, want %s", note.Params, want)
		}
		synctest.Wait()
		if s := r.Snapshot(); s.State != connector.Ready {
			t.Errorf("state %s", s.State)
		}
	})
}

func TestBadLines(t *testing.T) {
	const nonsense = `error: upstream "files": the server's answer is malformed (-32603)`
	for _, tt := range []struct{ name, line, want string }{
		{"garbage before the answer", "Hello, I am a server!\n{\n[1,2\n\"\n{\"a\":1}\n\xff\xfe", `{"ok":1}`},
		{"result and error", `{"jsonrpc":"2.0","id":%[1]s,"result":{},"error":{"code":1,"message":"x"}}`, nonsense},
		{"no result", `{"jsonrpc":"2.0","id":%[1]s}`, nonsense},
		{"error without a code", `{"jsonrpc":"2.0","id":%[1]s,"error":{"message":"x"}}`, nonsense},
		{"bad upstreamtest.F-8", "{\"jsonrpc\":\"2.0\",\"id\":%[1]s,\"result\":{\"t\":\"\xff\"}}", nonsense},
		{"too deep", `{"jsonrpc":"2.0","id":%[1]s,"result":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, nonsense},
		{"too large", `{"jsonrpc":"2.0","id":%[1]s,"result":"` + strings.Repeat("x", 70000) + `"}`, `error: upstream "files": the server's answer is larger than 65536 bytes (-32603)`},
		{"a result that is no object", `{"jsonrpc":"2.0","id":%[1]s,"result":"str"}`, `error: upstream "files": the result in the server's answer is no object (-32603)`},
		{"too large, with the id at the end", `{"jsonrpc":"2.0","result":{"a":"` + strings.Repeat("x", 70000) + `"},"id":%[1]s}`, `error: upstream "files": the server's answer is larger than 65536 bytes (-32603)`},
		{"much too large", `{"jsonrpc":"2.0","id":%[1]s,"result":"` + strings.Repeat("x", 10*65536) + `"}`, `error: upstream "files": the server's answer is larger than 65536 bytes (-32603)`},
		{"too large, of no request", `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", 70000) + `"}}`, `{"ok":1}`},
		{"a byte order mark in the middle", "\ufeff" + `{"jsonrpc":"2.0","id":%[1]s,"result":{}}`, nonsense},
		{"an answer of the wrong kind of id", `{"jsonrpc":"2.0","id":"%[1]s","result":{"no":1}}`, `{"ok":1}`},
		{"a batch", `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%[1]s,"result":{"batched":1}}]`, `{"batched":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method != wire.MethodToolsCall {
						return
					}
					if wire.ValueOf(m.Params).Get("name").IsString("echo") {
						line := tt.line
						if strings.Contains(line, "%") {
							line = fmt.Sprintf(line, m.ID)
						}
						l.Line("%s", line)
					}
					l.Result(m, `{"ok":1}`)
				})}
				r := start(t, Options{Server: Server{Pipe: s.Pipe, MaxMessage: 64 << 10}})
				r.watch.wait(t, isReady)
				if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))); got != tt.want {
					t.Errorf("outcome %s, want %s", got, tt.want)
				}
				if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("read", "a", &upstreamtest.Peer{}))); got != `{"ok":1}` {
					t.Errorf("the next call: %s", got)
				}
				if s.Starts() != 1 {
					t.Errorf("%d starts, want 1", s.Starts())
				}
			})
		})
	}
}

// A byte order mark at the beginning of a server's output is skipped.
func TestByteOrderMark(t *testing.T) {
	for name, mark := range map[string]string{"before a message": "\ufeff", "before a blank line": "\ufeff\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) { l.Result(m, `{"ok":1}`) })}
				first := s.Handle
				s.Handle = func(l *upstreamtest.Instance, m wire.Message) {
					if m.Method == wire.MethodInitialize {
						io.WriteString(l.Out, mark)
					}
					first(l, m)
				}
				r := start(t, Options{Server: Server{Pipe: s.Pipe, Era: wire.EraLegacy}})
				r.watch.wait(t, isReady)
				if got := upstreamtest.Outcome(r.Do(t.Context(), upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))); got != `{"ok":1}` {
					t.Errorf("outcome %s", got)
				}
			})
		})
	}
}

// Calls to a server that does not read end at their timeout.
func TestServerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
			if m.Method == wire.MethodToolsCall {
				<-block
			}
		})}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}})
		r.watch.wait(t, isReady)
		began := time.Now()
		var calls []<-chan string
		for range 3 { // the first is read, the second is written and the third is queued
			big := upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}).With(wire.Raw(`{"name":"` + strings.Repeat("x", line.MaxPending+1) + `"}`))
			calls = append(calls, r.doing(t.Context(), big))
			synctest.Wait()
		}
		for i, done := range calls {
			if got := <-done; !strings.Contains(got, "did not answer within 1m0s") {
				t.Errorf("call %d: %s", i, got)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("call %d took %s", i, took)
			}
		}
		close(block)
	})
}

func TestModernListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &upstreamtest.Server{Handle: upstreamtest.Modern(nil)}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}})
		r.watch.wait(t, isReady)
		l := s.Instance(1)
		listen := l.Wait(t, upstreamtest.Method(wire.MethodListen))
		if got := string(wire.ValueOf(listen.Params).Get("notifications").Raw()); got != `{"toolsListChanged":true}` {
			t.Errorf("filter %s", got)
		}
		changed := func(n uint64) func(connector.Snapshot) bool {
			return func(s connector.Snapshot) bool { return s.Changes.Tools == n }
		}
		l.Line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, listen.ID)
		r.watch.wait(t, changed(1))

		// The observer does not get the messages of the subscription itself.
		l.Line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y","_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, listen.ID)
		l.Line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:z","_meta":{"io.modelcontextprotocol/subscriptionId":%s,"k":1}}}`, listen.ID)
		// A modern server must not send requests. The gateway does not answer them.
		l.Line(`{"jsonrpc":"2.0","id":"q","method":"ping"}`)
		// If the server ends the subscription, the gateway opens a new one and reports all lists as changed.
		l.Line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, listen.ID)
		again := l.Wait(t, func(m wire.Message) bool { return m.Method == wire.MethodListen && m.ID != listen.ID })
		r.watch.wait(t, changed(2))
		l.Result(again, `{"resultType":"complete"}`)
		r.watch.wait(t, changed(3))
		want := []string{
			`notifications/resources/updated {"uri":"x:y"}`,
			`notifications/resources/updated {"uri":"x:z","_meta":{"k":1}}`,
		}
		if got := r.watch.noted(); !slices.Equal(got, want) {
			t.Errorf("the observer got %q, want %q", got, want)
		}
		if slices.Contains(l.Methods(), "response") {
			t.Errorf("the gateway answered a modern server: %q", l.Methods())
		}
	})
}
