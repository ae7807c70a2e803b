package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/polltest"
)

// A question to a client that cannot answer it is in the line of its call, whichever way the
// server asks it.
func TestQuestionsThatTheClientCannotAnswer(t *testing.T) {
	url := newAskingServer(t)
	core, logs := observer.New(zap.InfoLevel)
	g, _ := startLogged(t, "upstreams: {legacy: {url: \""+url+"/legacy\", transport: streamable-http}, "+
		"own: {url: \""+url+"/legacy\", transport: streamable-http, session: per-client}, "+
		"modern: {url: \""+url+"/modern\", transport: streamable-http}}", false, zap.New(core))
	for i, upstream := range []string{"legacy", "own", "modern"} {
		if answer := callOf(t, g, upstream+"__ask"); !strings.Contains(answer, `"text":"cancel"`) {
			t.Errorf("%s: the answer is %s", upstream, answer)
		}
		polltest.Until(t, "the call is in the log", func() bool { return logs.FilterMessage("call").Len() == i+1 })
		got := logs.FilterMessage("call").All()[i].ContextMap()["asks"]
		if diff := cmp.Diff([]any{"elicitation undeclared"}, got); diff != "" {
			t.Errorf("%s: asks (-want +got):\n%s", upstream, diff)
		}
	}
}
