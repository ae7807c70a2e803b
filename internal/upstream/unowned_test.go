package upstream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// A question that is put to nobody is no secret: operators read why, and what
// helps. One that the gateway answers for everybody is none of those.
func TestRefusedQuestionsAreTold(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"secret?","requestedSchema":{"type":"object","properties":{}}}}`
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		refused := make(chan string, 100)
		s := &fakeServer{handle: legacy(nil)}
		r := start(t, Options{Server: Server{Pipe: s.pipe}, Logger: zap.New(core), Hooks: Hooks{AskRefused: func(method string) { refused <- method }}})
		r.watch.wait(t, isReady)
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		calls := []<-chan string{r.doing(ctx, toolCall("echo", "ann", &peer{ask: func(ctx context.Context, _ string, _ wire.Raw) (wire.Raw, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		}}))}
		synctest.Wait()
		l := s.life(1)
		l.line(ask, "of-ann")
		<-asked // and is not answered: ann's call waits, as a parked one does
		calls = append(calls, r.doing(ctx, toolCall("echo", "bob", &peer{})))
		synctest.Wait()
		l.line(`{"jsonrpc":"2.0","id":"none","method":"roots/list"}`)
		l.wait(t, response(`"none"`))
		for i := range 20 {
			id := fmt.Sprintf("whose-%d", i)
			l.line(ask, id)
			l.wait(t, response(`"`+id+`"`))
		}
		if len(refused) != 20 || <-refused != wire.MethodElicit {
			t.Errorf("%d questions are counted, want the 20 that were refused", len(refused))
		}
		told := logs.FilterMessageSnippet("nobody knows whom").All()
		if len(told) == 0 || len(told) > 10 {
			t.Fatalf("%d log lines, want some and not one for each", len(told))
		}
		got := told[0].ContextMap()
		want := map[string]any{
			"method": wire.MethodElicit, "why": "calls of several clients are in flight, and it may be that of any",
			"clients": int64(2), "calls": int64(2), "calls_that_wait_for_their_client": int64(1), "help": protocol.OwnSessions,
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
