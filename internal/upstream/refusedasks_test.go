package upstream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/upstream/upstreamtest"
	"mcpgateway/internal/wire"
)

// The log says why an ask was refused and which setting helps. Asks that the gateway
// answers itself are not logged.
func TestRefusedAsksAreLogged(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"secret?","requestedSchema":{"type":"object","properties":{}}}}`
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		refused := make(chan string, 100)
		s := &upstreamtest.Server{Handle: upstreamtest.Legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.Pipe}, Logger: zap.New(core), Hooks: Hooks{AskRefused: func(method string) { refused <- method }}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		toolCall := func(client string, back call.BackChannel) *call.Call {
			c := upstreamtest.ToolCall("echo", client, back)
			c.ID = "request-of-" + client
			return c
		}
		calls := []<-chan string{r.doing(ctx, toolCall("ann", &upstreamtest.Peer{OnAsk: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		}}))}
		synctest.Wait()
		l := s.Instance(1)
		l.Line(ask, "of-ann")
		<-asked // ann's client does not answer, so her call waits
		calls = append(calls, r.doing(ctx, toolCall("bob", &upstreamtest.Peer{})))
		synctest.Wait()
		l.Line(`{"jsonrpc":"2.0","id":"none","method":"roots/list"}`)
		l.Wait(t, upstreamtest.Response(`"none"`))
		for i := range 20 {
			id := fmt.Sprintf("whose-%d", i)
			l.Line(ask, id)
			l.Wait(t, upstreamtest.Response(`"`+id+`"`))
		}
		if len(refused) != 20 || <-refused != wire.MethodElicit {
			t.Errorf("%d asks are counted, want the 20 refused ones", len(refused))
		}
		lines := logs.FilterMessageSnippet("nobody knows whom").All()
		if len(lines) == 0 || len(lines) > 10 {
			t.Fatalf("%d log lines, want between 1 and 10", len(lines))
		}
		got := lines[0].ContextMap()
		want := map[string]any{
			"method": wire.MethodElicit, "why": "calls of several clients are in flight, and it may be that of any",
			"clients": int64(2), "calls": int64(2), "calls_that_wait_for_their_client": int64(1), "help": protocol.OwnSessions,
			"requests": []any{"request-of-ann", "request-of-bob"},
		}
		delete(got, "upstream")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		cancel()
		for _, c := range calls {
			<-c
		}
	})
}
