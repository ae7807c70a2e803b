package matrix

import (
	"os"
	"strings"
	"testing"
)

// README.md contains the text of expected.md.
func TestReadme(t *testing.T) {
	want := marked(t, "expected.md")
	if got := marked(t, "../../README.md"); got != want {
		t.Errorf("README.md has\n%s\nbetween the marks, expected.md has\n%s", got, want)
	}
}

// marked returns the text between the marks of a file.
func marked(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, after, begins := strings.Cut(string(text), "\n<!-- matrix -->\n")
	between, _, ends := strings.Cut(after, "\n<!-- /matrix -->\n")
	if !begins || !ends {
		t.Fatalf("%s has no marks <!-- matrix --> and <!-- /matrix --> on separate lines", name)
	}
	return between
}
