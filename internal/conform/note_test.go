package conform

import (
	"slices"
	"testing"

	"mcpgateway/internal/wire"
)

func TestKnowsNote(t *testing.T) {
	always := []wire.Revision{wire.Rev20241105, wire.Rev20250326, wire.Rev20250618, wire.Rev20251125, wire.Rev20260728, "2027-01-01"}
	for method, want := range map[string][]wire.Revision{
		wire.NoteProgress:            always,
		wire.NoteMessage:             always,
		wire.NoteResourceUpdated:     always,
		wire.NoteElicitComplete:      {wire.Rev20251125},
		"notifications/tasks/status": {wire.Rev20251125},
		"notifications/tasks":        {wire.Rev20260728, "2027-01-01"},
		wire.NoteAcknowledged:        {wire.Rev20260728, "2027-01-01"},
		"notifications/holograms":    always,
	} {
		for _, rev := range revisions {
			if got := KnowsNote(rev, method); got != slices.Contains(want, rev) {
				t.Errorf("KnowsNote(%s, %q) = %v", rev, method, got)
			}
		}
	}
}

// Dashboards rely on these words.
func TestKindWords(t *testing.T) {
	want := [Kinds]string{
		Audio: "audio", ResourceLink: "resource_link", StructuredContent: "structured_content", OutputSchema: "output_schema",
		BooleanSchema: "boolean_schema", TaskRequired: "task_required", Notification: "notification",
	}
	for k, word := range want {
		if got := Kind(k).String(); got != word {
			t.Errorf("kind %d is %q, want %q", k, got, word)
		}
	}
}

func TestTallyAdd(t *testing.T) {
	sum := Tally{Audio: 1}
	sum.Add(Tally{Audio: 2, Notification: 3})
	if sum != (Tally{Audio: 3, Notification: 3}) {
		t.Errorf("sum %v", sum)
	}
}
