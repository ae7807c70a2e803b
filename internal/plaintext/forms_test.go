package plaintext

import (
	"slices"
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	if got := Forms("plain-1"); len(got) != 1 || got[0] != "plain-1" {
		t.Errorf("got %q", got)
	}
	got := Forms("a \"<é😀\n")
	for _, want := range []string{
		"a \"<é😀\n",
		`a \"\u003cé😀\n`,            // Go
		`a \"<é😀\n`,                 // JavaScript
		`a \"<\u00e9\ud83d\ude00\n`, // Python
		`a \\\"<\\u00e9\\ud83d\\ude00\\n`,
		"a+%22%3C%C3%A9%F0%9F%98%80%0A", "a%20%22%3C%C3%A9%F0%9F%98%80%0A",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if !slices.IsSortedFunc(got, func(a, b string) int { return len(b) - len(a) }) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
}
