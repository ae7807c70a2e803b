package gateway

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/config"
	"mcpgateway/internal/polltest"
)

const storeKeys = "bridge: {keys: [AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]}\n"

// A store that is away takes no replica down: it is ready and says so.
func TestStoreAway(t *testing.T) {
	const addr = "127.0.0.1:1" // nobody listens there
	cfg := storeConfig(t, "upstreams: {a: {command: none, disabled: true}}\nlisten: 127.0.0.1:0\nadmin: {listen: \"127.0.0.1:0\"}\nstore: {kind: redis, url: \"redis://:much-secret@"+addr+"\"}\n"+storeKeys)
	core, logged := observer.New(zap.InfoLevel)
	g, err := New(Options{Config: cfg, Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	polltest.Until(t, "the store is found to be away", func() bool { return g.failingStore() != "" })
	if text := strings.Join(g.failing(reasonForAll), "\n"); !strings.Contains(text, "the store is away since") || strings.Contains(text, "much-secret") {
		t.Errorf("failing is %q", text)
	}
	polltest.Until(t, "the gateway is ready", func() bool { return len(g.waitingFor(reasonForAll)) == 0 })
	if n := logged.FilterMessage("the store is away; the gateway goes on with what this replica has").Len(); n != 1 {
		t.Errorf("%d lines about the store, want 1", n)
	}
	if err := CheckStore(t.Context(), cfg); err == nil {
		t.Error("a check finds nothing wrong")
	}
	// Another store takes effect after a restart.
	changes, err := g.Reload(t.Context(), storeConfig(t, "upstreams: {a: {command: none, disabled: true}}\nlisten: 127.0.0.1:0\nadmin: {listen: \"127.0.0.1:0\"}\n"+storeKeys))
	if err != nil || !strings.Contains(strings.Join(changes.Restart, " "), "store.kind") {
		t.Errorf("a reload needs a restart for %q, %v", changes.Restart, err)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// With kind memory there is no store.
func TestNoStore(t *testing.T) {
	cfg := storeConfig(t, "upstreams: {a: {command: none, disabled: true}}\n")
	if g := (&Gateway{cfg: cfg}); g.openStore() != nil || g.failingStore() != "" || CheckStore(t.Context(), cfg) != nil {
		t.Error("there is a store")
	}
}

// storeConfig parses a configuration without a state folder of its own.
func storeConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("gateway.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	cfg.StateDir = t.TempDir()
	return cfg
}
