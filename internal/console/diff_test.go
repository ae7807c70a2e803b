package console

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, tc := range []struct {
		name, before, after string
		columns             int
		want                string
	}{
		{"nothing", "a\nb\n", "a\nb\n", 0, ""},
		{"a new file", "", "a\n\tb\n", 0, "+a\n+  b\n"},
		{"a removed file", "a\n", "", 0, "-a\n"},
		{"inserted", "1\n2\n3\n4\n5\n6\n", "1\n2\n3\nx\n4\n5\n6\n", 0, " 2\n 3\n+x\n 4\n 5\n"},
		{"replaced", "1\n}\n", "1\n},\nx\n", 0, " 1\n-}\n+},\n+x\n"},
		{"a repeated line", "a\na\n", "a\na\na\n", 0, " a\n a\n+a\n"},
		{"no line end", "{}", "{\r\n}", 0, "-{}\n+{\n+}\n"},
		{"escapes", "\x1b[2J", "x", 0, "-\\x1b[2J\n+x\n"},
		{"long lines", strings.Repeat("a", 50) + "b", strings.Repeat("a", 50) + "c", 20, "-…aaaab\n+…aaaac\n"},
		{"long new lines", "", strings.Repeat("a", 50), 20, "+" + strings.Repeat("a", 18) + "…\n"},
		{"a long new line of words", "", "  one two three four five six", 20, "+  one two three\n+    four five six\n"},
		{
			"a long insertion", `{"mine": {"x": {}}}`, `{"mine": {"x": {}, "gateway": {"command": "/bin/gateway", "args": ["stdio"]}}}`, 30,
			"-{\"mine\": {\"x\": {}}}\n+…\"x\": {}, \"gateway\":\n+  {\"command\": \"/bin/gateway\",\n+  \"args\": [\"stdio\"]}}}\n",
		},
		{"a huge line", strings.Repeat("a ", 5000), strings.Repeat("a ", 5000) + "b", 20, "-…a a\n+…a a b\n"},
		{"a huge insertion", "[]", "[" + strings.Repeat("a", 5000) + "]", 20, "-[]\n+[" + strings.Repeat("a", 17) + "…\n"},
		{"many words", "[]", "[" + strings.Repeat("aaaaaaaa ", 5000) + "]", 20, "-[]\n+[aaaaaaaa aaaaaaaa\n" + strings.Repeat("+  aaaaaaaa aaaaaaaa\n", 7) + "+  aaaaaaa…\n"},
	} {
		var out bytes.Buffer
		if err := Diff(&out, Style{}, tc.columns, tc.before, tc.after); err != nil || out.String() != tc.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tc.name, err, out.String(), tc.want)
		}
	}
}

func TestConfirm(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, " YES \n": true, "\n": false, "no\n": false, "": false, "yeah\n": false, "yeah\nNo\n": false, "x\n\n": false, "x\nY\n": true} {
		got, err := NewPrompter(strings.NewReader(typed), io.Discard, Style{}).Confirm(t.Context(), "Sure?")
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", typed, got, err)
		}
	}
}
