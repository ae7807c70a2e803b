package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// A message that names its task goes to who waits for it or holds it, whatever
// else is in flight.
func TestAddresseeOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := func(who string) *peer {
			return &peer{ask: func(context.Context, string, wire.Raw) (wire.Raw, error) {
				return wire.Raw(`{"action":"accept","content":{"who":"` + who + `"}}`), nil
			}}
		}
		able := func(c *call.Call) *call.Call {
			c.Client.Capabilities = wire.Raw(`{"elicitation":{}}`)
			return c
		}
		holder := answers("holder")
		held := able(toolCall("", "holder", holder))
		held.Params = wire.Raw(`{"_meta":{"progressToken":"own"}}`)
		outside := &people{tasks: map[string]*call.Call{"held": held}}
		s := &fakeServer{handle: legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.pipe}, Hooks: Hooks{Outside: outside}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		about := func(method, key, id string, back *peer) <-chan string {
			c := able(toolCall("", key, back))
			c.Method, c.Params = method, wire.Raw(`{"taskId":"`+id+`"}`)
			return r.doing(ctx, c)
		}
		waiter := answers("waiter")
		calls := []<-chan string{
			about(wire.MethodTasksResult, "waiter", "awaited", waiter),
			about(wire.MethodTasksGet, "waiter", "awaited", &peer{}),
			r.doing(ctx, able(toolCall("echo", "stranger", &peer{}))),
		}
		synctest.Wait()
		l := s.life(1)
		for id, want := range map[string]string{
			"awaited": `{"action":"accept","content":{"who":"waiter"}}`,
			"held":    `{"action":"accept","content":{"who":"holder"}}`,
			"unknown": `{"action":"cancel"}`,
		} {
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
			l.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q,%s}}`, id, related)
			l.line(`{"jsonrpc":"2.0","id":%q,"method":"elicitation/create","params":{"message":"?",%s}}`, id, related)
			if got := string(l.wait(t, response(`"`+id+`"`)).Result); got != want {
				t.Errorf("the question of the task that is %s: %s, want %s", id, got, want)
			}
		}
		for _, id := range []string{"held", "unknown"} { // the request with this token has been answered
			l.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}}`, id)
		}
		synctest.Wait()
		if got := holder.got(); len(got) != 2 || !strings.HasPrefix(got[1], `notifications/progress {"progressToken":"own","progress":1,`) {
			t.Errorf("the holder of a task was told %q", got)
		}
		cancel()
		for _, c := range calls {
			<-c
		}
	})
}

// A look at a task is over before a question could be answered, so it is not the
// call that a question belongs to.
func TestAddresseeIsNoLook(t *testing.T) {
	flights := protocol.NewPendingCalls()
	long := toolCall("echo", "a", &peer{})
	look := toolCall("", "a", &peer{})
	look.Method = wire.MethodTasksGet
	for _, order := range [][]*call.Call{{long, look}, {look, long}} {
		var open []*protocol.PendingCall
		for _, c := range order {
			f, err := flights.Begin(c)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, f)
		}
		if got := flights.Owner(); got != long {
			t.Errorf("the owner is %s", got.Method)
		}
		for _, f := range open {
			flights.End(f)
		}
	}
}
