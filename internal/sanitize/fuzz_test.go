package sanitize

import (
	"testing"

	"mcpgateway/internal/wire"
)

// FuzzSanitize checks that sanitized documents are valid JSON without the characters that
// were to be removed.
func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{
		`\u001b]0;\u001b[31mx\u0007\udb40\u200b\udc49`, "\u009b31m\U000E0041\U0001F3F4\U000E0067", `\ud83d\ud83d\udc00\u202e`, `\\u001b\/\"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		doc := wire.Raw(`{"content":[{"type":"text","text":"` + in + `"}]}`)
		if wire.Check(doc, wire.Limits{}, wire.Lenient) != nil {
			return
		}
		for _, s := range []Classes{ANSI, Control, Invisible, ANSI | Control | Invisible} {
			got, counts := s.Result(doc)
			if err := wire.Check(got, wire.Limits{}, wire.Lenient); err != nil {
				t.Fatalf("%v: %q", err, got)
			}
			if counts == (Counts{}) != (string(got) == string(doc)) {
				t.Fatalf("%q became %q, and %v was counted", doc, got, counts)
			}
			for _, r := range wire.ValueOf(got).Get("content").Raw() {
				if s&Control != 0 && r == 0x7f {
					t.Fatalf("%q is left in %q", r, got)
				}
			}
			for el := range wire.ValueOf(got).Get("content").Elements() {
				for _, r := range el.Get("text").Str() {
					if s&ANSI != 0 && (r == 0x1b || r == 0x9b || r == 0x9d) || s&Control != 0 && isControl(r) ||
						s&Invisible != 0 && (0x202a <= r && r <= 0x202e || r == 0xfeff) {
						t.Fatalf("%U is left of %q: %q", r, doc, got)
					}
				}
			}
		}
	})
}
