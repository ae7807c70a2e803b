package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/wire"
)

// TestProtocolGuide checks the revisions and the impossible scenarios in docs/protocol.md.
func TestProtocolGuide(t *testing.T) {
	raw, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(raw)
	spoken := append(wire.LegacyRevisions(), wire.ModernRevisions()...)
	slices.Sort(spoken)
	head := "| "
	for _, r := range spoken {
		head += "| " + string(r) + " "
	}
	if n := strings.Count(guide, "\n"+head+"|\n"); n != 2 {
		t.Errorf("%d tables have a column for each supported revision, want 2", n)
	}
	want, got := map[string]bool{}, map[string]bool{}
	for _, i := range impossibles {
		want[i.suite+" "+i.scenario] = true
	}
	scenario := regexp.MustCompile("`([a-z0-9-]+)`")
	_, table, _ := strings.Cut(guide, "| suite | scenario | why |\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		suite, _, _ := strings.Cut(strings.TrimSpace(cells[1]), ",")
		for _, m := range scenario.FindAllStringSubmatch(cells[2], -1) {
			got[suite+" "+m[1]] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("impossible scenarios (-impossible.go, +guide):\n%s", diff)
	}
}
