package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/upstream/connector"
)

func TestStartingTellsEachUpstreamOnce(t *testing.T) {
	var out bytes.Buffer
	s := newStarting(console.NewScreen(&out, false))
	s.lines = true
	core, logged := observer.New(zapcore.DebugLevel)
	log := zap.New(core, zap.WrapCore(s.quieten)).With(zap.String("upstream", "x"))

	ready := inspect.Upstream{
		Name: "files", State: connector.Ready, Revision: "2025-06-18", Took: 412 * time.Millisecond,
		Items: [call.Kinds]int{call.Tool: 12, call.Prompt: 1},
	}
	log.Info("upstream")
	s.watch(ready) // before begin names the upstreams
	if out.Len() > 0 {
		t.Errorf("printed before begin: %q", out.String())
	}
	s.begin([]inspect.Upstream{{Name: "files"}, {Name: "a-longer"}, {Name: "last"}, {Name: "stopped"}})
	s.watch(inspect.Upstream{Name: "stopped", State: connector.Down, Reason: connector.ReasonEnded, Took: time.Millisecond})
	s.watch(inspect.Upstream{Name: "a-longer", State: connector.Connecting})
	s.watch(ready)
	s.watch(inspect.Upstream{Name: "a-longer", State: connector.Down, Reason: "no \x1b[31msuch\nfile", Took: 20 * time.Millisecond})
	log.Warn("no connection")
	log.Warn("something else")
	log.Info("the gateway starts")
	s.watch(inspect.Upstream{Name: "last", State: connector.Degraded, Revision: "2026-07-28", Reason: "tools/list failed", Took: 12340 * time.Millisecond})
	log.Warn("no connection")
	log.Info("upstream")
	log.Info("upstreams have started")
	log.Info("upstream")
	s.watch(inspect.Upstream{Name: "added", State: connector.Down, Reason: "the log says it", Took: time.Millisecond})

	want := strings.Join([]string{
		`  files     ready  legacy 2025-06-18  12 tools, 1 prompt  (412ms)`,
		`  a-longer  down   no \x1b[31msuch file  (20ms)`,
		`  last      degraded  modern 2026-07-28  no items  tools/list failed  (12.3s)`,
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("told\n%swant\n%s", out.String(), want)
	}
	var messages []string
	for _, e := range logged.All() {
		messages = append(messages, e.Message)
	}
	if got := strings.Join(messages, ", "); got != "something else, no connection, upstream" {
		t.Errorf("logged %s", got)
	}
}
