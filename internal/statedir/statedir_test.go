package statedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"mcpgateway/internal/wire"
)

func TestStateSurvivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	want := &Catalog{
		Revision: wire.Rev20250618, Instructions: "Ask nicely.",
		Tools: FromRaw([]wire.Raw{wire.Raw(`{"name":"a<b>","inputSchema":{"type":"object","maximum":9007199254740993}}`)}),
	}
	before := Open(dir, zap.NewNop())
	before.Remember("k1", wire.EraModern)
	before.RememberCatalog("k1", want)

	after := Open(dir, zap.NewNop())
	if got := after.Era("k1"); got != wire.EraModern {
		t.Errorf("era is %s, want modern", got)
	}
	if diff := cmp.Diff(want, after.Catalog("k1")); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
	if after.Era("k2") != wire.EraUnknown || after.Catalog("k2") != nil {
		t.Error("another configuration finds what was remembered of this one")
	}
	after.Remember("k1", wire.EraUnknown)
	if got := after.Era("k1"); got != wire.EraUnknown {
		t.Errorf("era is %s after it was forgotten", got)
	}
	if diff := cmp.Diff(want, after.Catalog("k1")); diff != "" {
		t.Errorf("forgetting the era changed the catalog:\n%s", diff)
	}
}

// An earlier version of the gateway remembered stdio servers of both eras as modern
// ones.
func TestEraOfAnEarlierVersionIsForgotten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "upstream-k.json"), []byte(`{"era":"modern","catalog":{"revision":"2026-07-28"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Open(dir, zap.NewNop())
	if got := s.Era("k"); got != wire.EraUnknown {
		t.Errorf("era is %s, want unknown", got)
	}
	if s.Catalog("k") == nil {
		t.Error("the catalog is forgotten, too")
	}
}

func TestStateThatCannotBeUsedIsNoError(t *testing.T) {
	notADir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notADir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "upstream-k.json"), []byte(`{"era_v2":"modern","era_v2":"legacy"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"none": "", "a file": filepath.Join(notADir, "state"), "broken content": broken} {
		t.Run(name, func(t *testing.T) {
			s := Open(dir, zap.NewNop())
			if got := s.Era("k"); got != wire.EraUnknown {
				t.Errorf("era is %s, want unknown", got)
			}
			s.Remember("k", wire.EraLegacy) // must not fail
			want := wire.EraUnknown
			if dir == broken {
				want = wire.EraLegacy
			}
			if got := s.Era("k"); got != want {
				t.Errorf("era is %s after Remember, want %s", got, want)
			}
		})
	}
}
