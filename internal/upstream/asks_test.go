package upstream

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/transport/line"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

func TestAsks(t *testing.T) {
	const (
		cancelled = `result {"action":"cancel"}`
		form      = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}`
		url       = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Go","url":"https://x","elicitationId":"e"}}`
		sampling  = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[]}}`
		withTools = `{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"tools":[]}}`
		roots     = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
	)
	answers := func(answer string) func(context.Context, string, wire.Raw) (wire.Raw, error) {
		return func(context.Context, string, wire.Raw) (wire.Raw, error) { return wire.Raw(answer), nil }
	}
	fails := func(err error) func(context.Context, string, wire.Raw) (wire.Raw, error) {
		return func(context.Context, string, wire.Raw) (wire.Raw, error) { return nil, err }
	}
	for _, tt := range []struct {
		name    string
		request string
		clients []string // keys of the clients with a pending call
		caps    string
		roots   []protocol.Root
		ask     func(context.Context, string, wire.Raw) (wire.Raw, error)
		want    string
	}{
		{"ping", `{"jsonrpc":"2.0","id":"q","method":"ping"}`, nil, ``, nil, nil, `result {}`},
		{"configured roots without a call", roots, nil, ``, []protocol.Root{{URI: "file:///a", Name: "A"}, {URI: "file:///b"}}, nil, `result {"roots":[{"uri":"file:///a","name":"A"},{"uri":"file:///b"}]}`},
		{"configured roots instead of the client's", roots, []string{"a"}, `{"roots":{}}`, []protocol.Root{{URI: "file:///b"}}, nil, `result {"roots":[{"uri":"file:///b"}]}`},
		{"no roots", roots, []string{"a"}, `{"roots":{}}`, nil, nil, `error -32601`},
		{"unknown request", `{"jsonrpc":"2.0","id":"q","method":"x/y"}`, []string{"a"}, `{}`, nil, nil, `error -32601`},
		{"form", form, []string{"a"}, `{"elicitation":{}}`, nil, answers(`{"action":"accept","content":{"n":1.0}}`), `result {"action":"accept","content":{"n":1.0}}`},
		{"form, named", form, []string{"a"}, `{"elicitation":{"form":{}}}`, nil, answers(`{"action":"decline"}`), `result {"action":"decline"}`},
		{"two calls of one client", form, []string{"a", "a"}, `{"elicitation":{}}`, nil, answers(`{"action":"accept"}`), `result {"action":"accept"}`},
		{"calls of two clients", form, []string{"a", "b"}, `{"elicitation":{}}`, nil, answers(`{"action":"accept"}`), cancelled},
		{"no call", form, nil, ``, nil, nil, cancelled},
		{"elicitation undeclared", form, []string{"a"}, `{}`, nil, answers(`{"from":"the back channel"}`), `result {"from":"the back channel"}`},
		{"mode undeclared: url", url, []string{"a"}, `{"elicitation":{}}`, nil, answers(`{"from":"the back channel"}`), `result {"from":"the back channel"}`},
		{"url", url, []string{"a"}, `{"elicitation":{"form":{},"url":{}}}`, nil, answers(`{"action":"accept"}`), `result {"action":"accept"}`},
		{"the client's error", form, []string{"a"}, `{"elicitation":{}}`, nil, fails(wire.Errorf(-5, "broken")), `error -5`},
		{"the client is gone", form, []string{"a"}, `{"elicitation":{}}`, nil, fails(context.Canceled), cancelled},
		{"sampling", sampling, []string{"a"}, `{"sampling":{}}`, nil, answers(`{"role":"assistant"}`), `result {"role":"assistant"}`},
		{"sampling undeclared", sampling, []string{"a"}, `{}`, nil, fails(wire.Errorf(-32601, "of the back channel")), `error -32601`},
		{"sampling lapsed", sampling, []string{"a"}, `{"sampling":{}}`, nil, fails(context.DeadlineExceeded), `error -1`},
		{"sampling for two clients", sampling, []string{"a", "b"}, `{"sampling":{}}`, nil, answers(`{}`), `error -1`},
		{"sampling with tools", withTools, []string{"a"}, `{"sampling":{"tools":{}}}`, nil, answers(`{"role":"assistant"}`), `result {"role":"assistant"}`},
		{"sampling with tools undeclared", withTools, []string{"a"}, `{"sampling":{}}`, nil, fails(wire.Errorf(-32602, "of the back channel")), `error -32602`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
				r := start(t, Options{Server: Server{Pipe: s.Pipe, Roots: tt.roots}})
				r.watch.wait(t, isReady)
				ctx, cancel := context.WithCancel(t.Context())
				var calls []<-chan string
				for _, key := range tt.clients {
					c := upstreamtest.ToolCall("echo", key, &upstreamtest.Peer{OnAsk: tt.ask})
					client := *c.Client
					client.Capabilities = wire.Raw(tt.caps)
					c.Client = &client
					calls = append(calls, r.doing(ctx, c))
				}
				synctest.Wait()
				s.Instance(1).Line("%s", tt.request)
				m := s.Instance(1).Wait(t, upstreamtest.Response(`"q"`))
				got := "result " + string(m.Result)
				if m.Error != nil {
					got = "error " + strings.Fields(strings.TrimPrefix(m.Error.Error(), m.Error.Message+" ("))[0]
					got = strings.TrimSuffix(got, ")")
				}
				if got != tt.want {
					t.Errorf("the server got %s, want %s", got, tt.want)
				}
				cancel()
				for _, c := range calls {
					<-c
				}
			})
		})
	}
}

// startAsk returns a server with one pending call whose client was asked and has not
// answered.
func startAsk(t *testing.T) (s *upstreamtest.Server, asked <-chan context.Context, done <-chan string) {
	s = &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
	r := start(t, Options{Server: Server{Pipe: s.Pipe}})
	r.watch.wait(t, isReady)
	ch := make(chan context.Context, 1)
	back := &upstreamtest.Peer{OnAsk: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
		ch <- ctx
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	done = r.doing(t.Context(), upstreamtest.ToolCall("echo", "a", back))
	s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall))
	s.Instance(1).Line(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
	return s, ch, done
}

func TestServerCancelsItsAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked, done := startAsk(t)
		ctx := <-asked
		s.Instance(1).Line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
		<-ctx.Done()
		synctest.Wait()
		m := s.Instance(1).Wait(t, upstreamtest.Method(wire.MethodToolsCall))
		s.Instance(1).Result(m, `{"late":1}`)
		if got := <-done; got != `{"late":1}` {
			t.Errorf("outcome %s", got)
		}
		for _, m := range s.Instance(1).Methods() {
			if m == "response" {
				t.Error("the gateway answered a cancelled ask")
			}
		}
	})
}

// The inactivity timeout stops while the client is asked. The maximum duration of a
// call does not.
func TestAskStopsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, asked, done := startAsk(t)
		<-asked
		began := time.Now()
		if got := <-done; !strings.Contains(got, "took longer than 1h0m0s") {
			t.Errorf("outcome %s", got)
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("took %s", took)
		}
	})
}

// A server that asks endlessly and reads no answers uses a bounded amount of memory.
func TestServerThatReadsNoAnswers(t *testing.T) {
	t.Run("any transport", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			sending := 0
			a := &protocol.ServerRequests{Config: Options{}.withDefaults().conversation(), Liveness: new(protocol.Liveness)}
			a.Send = func(ctx context.Context, _ wire.Message, _ *call.Call) {
				a.Mu.Lock()
				sending++
				a.Mu.Unlock()
				<-ctx.Done()
			}
			for n := range 4 * protocol.MaxAsks {
				a.Serve(ctx, wire.Message{ID: wire.IDOf(strconv.Itoa(n)), Method: wire.MethodPing}, nil)
				synctest.Wait()
			}
			upstreamtest.Equal(t, "answers being sent", sending, protocol.MaxAsks)
			cancel()
			a.Wait()
		})
	})
	t.Run("line transport", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &upstreamtest.Server{Handle: upstreamtest.Legacy(func(l *upstreamtest.Instance, m wire.Message) {
				if m.Method == wire.MethodToolsCall {
					<-l.Hold
				}
			})}
			r := start(t, Options{Server: Server{Pipe: s.Pipe}})
			r.watch.wait(t, isReady)
			ctx, cancel := context.WithCancel(t.Context())
			done := r.doing(ctx, upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{}))
			synctest.Wait() // the server reads nothing after this
			for n := range 3 * line.MaxPending / 2 / 200 {
				s.Instance(1).Line(`{"jsonrpc":"2.0","id":"%0200d","method":"ping"}`, n)
			}
			synctest.Wait()
			conn, err := r.Await(t.Context(), &call.Call{})
			if err != nil {
				t.Fatal(err)
			}
			waiting := conn.(*line.Conn).Unwritten()
			if waiting > line.MaxPending+protocol.MaxAsks*300 {
				t.Errorf("%d bytes are queued", waiting)
			}
			cancel()
			<-done
			close(s.Instance(1).Hold)
		})
	})
}
