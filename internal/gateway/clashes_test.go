package gateway

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
	"mcpgateway/internal/ruleset"
)

// A name that two upstreams without a prefix share belongs to the first one in the
// configuration, even while it is down: before its first list, after it, and when the
// gateway starts again.
func TestClashWithAnUpstreamThatIsDown(t *testing.T) {
	first, second := newScripted(t, "first"), newScripted(t, "second")
	first.tool, second.tool = "x", "x"
	first.dead.Store(true)
	dir := t.TempDir()
	yaml := "upstreams:\n  first: " + first.entry(`, prefix: ""`) + "\n  second: " + second.entry(`, prefix: ""`) + "\n"
	run := func() (*Gateway, func()) {
		cfg, err := config.Parse("gateway.yaml", []byte(yaml), os.LookupEnv, ruleset.CheckConditions())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", dir
		g, err := New(Options{Config: cfg, Version: "test", Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		return g, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	says := func(g *Gateway, tool, want string) {
		t.Helper()
		if answer := callOf(t, g, tool); !strings.Contains(answer, want) {
			t.Errorf("%s: %s, want %s", tool, answer, want)
		}
	}

	g, end := run()
	if list := listOf(t, g); !strings.Contains(list, `"second__x"`) || strings.Contains(list, `"x"`+`,"inputSchema`) {
		t.Errorf("before the first list of the first upstream: %s", list)
	}
	says(g, "second__x", "from second")
	says(g, "x", `"upstream":"first"`)
	first.dead.Store(false)
	polltest.Until(t, "the first to be back", func() bool { return strings.Contains(callOf(t, g, "x"), "from first") })
	says(g, "second__x", "from second")
	end()

	first.dead.Store(true)
	g, end = run()
	defer end()
	listOf(t, g)
	says(g, "second__x", "from second")
	says(g, "x", `"upstream":"first"`)
	first.dead.Store(false)
	polltest.Until(t, "the first to be back again", func() bool { return strings.Contains(callOf(t, g, "x"), "from first") })
	says(g, "second__x", "from second")
}

// A call waits until the first of two upstreams without a prefix has listed its tools: the
// name may belong to it.
func TestClashBeforeTheFirstHasListed(t *testing.T) {
	first, second := newScripted(t, "first"), newScripted(t, "second")
	first.tool, second.tool = "x", "x"
	first.list = make(chan struct{})
	g, _ := start(t, "startup_wait: 5m\nupstreams:\n  first: "+first.entry(`, prefix: ""`)+"\n  second: "+second.entry(`, prefix: ""`)+"\n", false)
	polltest.Until(t, "the second to be listed", func() bool {
		p, ok := g.router.Routes().Table.Part("second")
		return ok && p.Down() == nil
	})
	answer := make(chan string, 1)
	go func() { answer <- callOf(t, g, "x") }()
	polltest.Until(t, "the call to be under way, or over", func() bool { return g.epochs.current.Load().calls.Load() > 0 || len(answer) > 0 })
	close(first.list)
	if got := <-answer; !strings.Contains(got, "from first") {
		t.Errorf("the call is answered with %s", got)
	}
}
