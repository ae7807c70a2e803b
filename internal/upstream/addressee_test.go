package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// An ask that names a task goes to the client that waits for the task or owns it,
// independent of other pending calls.
func TestAddresseeOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := func(client string) *upstreamtest.Peer {
			return &upstreamtest.Peer{OnAsk: func(context.Context, string, wire.Raw) (wire.Raw, error) {
				return wire.Raw(`{"action":"accept","content":{"client":"` + client + `"}}`), nil
			}}
		}
		able := func(c *call.Call) *call.Call {
			c.Client.Capabilities = wire.Raw(`{"elicitation":{}}`)
			return c
		}
		owner := answers("owner")
		held := able(upstreamtest.ToolCall("", "owner", owner))
		held.Params = wire.Raw(`{"_meta":{"progressToken":"own"}}`)
		outside := &fakeClients{tasks: map[string]*call.Call{"held": held}}
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}, Hooks: Hooks{Outside: outside}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		about := func(method, key, id string, back *upstreamtest.Peer) <-chan string {
			c := able(upstreamtest.ToolCall("", key, back))
			c.Method, c.Params = method, wire.Raw(`{"taskId":"`+id+`"}`)
			return r.doing(ctx, c)
		}
		waiter := answers("waiter")
		calls := []<-chan string{
			about(wire.MethodTasksResult, "waiter", "awaited", waiter),
			about(wire.MethodTasksGet, "waiter", "awaited", &upstreamtest.Peer{}),
			r.doing(ctx, able(upstreamtest.ToolCall("echo", "stranger", &upstreamtest.Peer{}))),
		}
		synctest.Wait()
		l := s.Instance(1)
		for id, want := range map[string]string{
			"awaited": `{"action":"accept","content":{"client":"waiter"}}`,
			"held":    `{"action":"accept","content":{"client":"owner"}}`,
			"unknown": `{"action":"cancel"}`,
		} {
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
			l.Line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q,%s}}`, id, related)
			l.Line(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"message":"?",%s}}`, id, related)
			if got := string(l.Wait(t, upstreamtest.Response(`"`+id+`"`)).Result); got != want {
				t.Errorf("ask of the %s task: %s, want %s", id, got, want)
			}
		}
		for _, id := range []string{"held", "unknown"} { // no request with this token is pending
			l.Line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}}`, id)
		}
		synctest.Wait()
		if got := owner.Got(); len(got) != 2 || !strings.HasPrefix(got[1], `notifications/progress {"progressToken":"own","progress":1,`) {
			t.Errorf("the owner of the task got the notifications %q", got)
		}
		cancel()
		for _, c := range calls {
			<-c
		}
	})
}

// An ask never belongs to a tasks/get call, because such a call ends before a client
// could answer.
func TestAddresseeIsNotATaskRead(t *testing.T) {
	pending := protocol.NewPendingCalls()
	long := upstreamtest.ToolCall("echo", "a", &upstreamtest.Peer{})
	taskRead := upstreamtest.ToolCall("", "a", &upstreamtest.Peer{})
	taskRead.Method = wire.MethodTasksGet
	for _, order := range [][]*call.Call{{long, taskRead}, {taskRead, long}} {
		var open []*protocol.PendingCall
		for _, c := range order {
			f, err := pending.Begin(c)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, f)
		}
		if got := pending.Owner(); got != long {
			t.Errorf("the owner is %s", got.Method)
		}
		for _, f := range open {
			pending.End(f)
		}
	}
}
