package call

import "testing"

// Dashboards and logs rely on these words.
func TestKindWords(t *testing.T) {
	want := [Kinds][2]string{
		Tool:     {"tool", "tools"},
		Resource: {"resource", "resources"},
		Template: {"template", "templates"},
		Prompt:   {"prompt", "prompts"},
	}
	for k, words := range want {
		if k := Kind(k); k.String() != words[0] || k.Plural() != words[1] {
			t.Errorf("kind %d is %q, %q; want %q", k, k.String(), k.Plural(), words)
		}
	}
}
