package statedir

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mcpgateway/internal/wire"
)

// If the state folder cannot be written, one line says so, with the consequences and the key to set.
func TestStateThatCannotBeWrittenIsToldOnce(t *testing.T) {
	for name, dir := range map[string]string{
		"no home": "", "cannot be made": "/proc/self/state", "cannot be written": "/proc/self/task", // not by root either
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			s := Open(dir, zap.New(core))
			s.Remember("k", wire.EraLegacy)
			s.RememberCatalog("k", &Catalog{})
			if logs.Len() != 1 {
				t.Fatalf("it says %v", logs.All())
			}
			said := logs.All()[0].ContextMap()
			lost, _ := said["lost"].(string)
			hint, _ := said["hint"].(string)
			if !strings.Contains(lost, "grants that users gave") || !strings.Contains(hint, "set state_dir to") {
				t.Errorf("it says %v", said)
			}
		})
	}
}
