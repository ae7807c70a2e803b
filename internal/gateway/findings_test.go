package gateway

import (
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// The findings of an upstream that produces ever new ones are bounded. The findings of other
// upstreams are still logged and counted.
func TestFindingsOfOneUpstreamLeaveRoomForOthers(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	cfg := config.Default(func(string) (string, bool) { return "", false })
	cfg.StateDir = t.TempDir()
	g, err := New(Options{Config: cfg, Logger: zap.New(core), Stdio: true})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	source := func(name string, tools int) catalog.Source {
		space, err := namespace.New(name, name, "__")
		if err != nil {
			t.Fatal(err)
		}
		src := catalog.Source{Naming: space, Revision: wire.Rev20251125}
		for i := range tools { // none has an input schema
			src.Items[call.Tool] = append(src.Items[call.Tool], wire.Raw(fmt.Sprintf(`{"name":"t%d"}`, i)))
		}
		return src
	}
	logged := func(sources ...catalog.Source) map[string]int {
		g.logFindings("", catalog.Build(catalog.Options{}, sources), true)
		of := map[string]int{}
		for _, l := range logs.FilterMessage("catalog").All() {
			of[l.ContextMap()["upstream"].(string)]++
		}
		return of
	}
	if of := logged(source("hostile", maxLoggedFindings+100)); of["hostile"] != maxLoggedFindings {
		t.Errorf("logged are %v", of)
	}
	if of := logged(source("hostile", maxLoggedFindings+200), source("honest", 1)); of["hostile"] != maxLoggedFindings || of["honest"] != 1 {
		t.Errorf("logged are %v", of)
	}
	if of := logged(source("honest", 1)); of["honest"] != 1 {
		t.Errorf("one finding is logged %d times", of["honest"])
	}
	// Profiles have the same findings, and those of their own names.
	logs.TakeAll()
	for range 2 {
		g.logFindings("coding", catalog.Build(catalog.Options{}, []catalog.Source{source("honest", 1), source("late", 1)}), true)
	}
	lines := logs.FilterMessage("catalog").All()
	if len(lines) != 1 || lines[0].ContextMap()["upstream"] != "late" || lines[0].ContextMap()["profile"] != "coding" {
		t.Errorf("of a profile are logged %v", lines)
	}
}
