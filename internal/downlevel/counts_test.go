package downlevel

import "testing"

// TestKindWords checks labels that dashboards use.
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

func TestCountsAdd(t *testing.T) {
	sum := Counts{Audio: 1}
	sum.Add(Counts{Audio: 2, Notification: 3})
	if sum != (Counts{Audio: 3, Notification: 3}) {
		t.Errorf("sum %v", sum)
	}
}
