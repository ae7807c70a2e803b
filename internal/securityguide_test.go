package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// securityGuide says what is checked where, and which test shows it: a folder and
// the name of a test, or the path of a file, as code.
const securityGuide = "../docs/security.md"

var (
	namedTest = regexp.MustCompile("`([a-z0-9/]+) (Test\\w+)`")
	namedFile = regexp.MustCompile("`(internal/[a-z0-9_/]+\\.go)`")
)

func TestSecurityGuideNamesTests(t *testing.T) {
	guide, err := os.ReadFile(securityGuide)
	if err != nil {
		t.Fatal(err)
	}
	tests := namedTest.FindAllStringSubmatch(string(guide), -1)
	if len(tests) < 40 {
		t.Fatalf("only %d tests were found", len(tests))
	}
	for _, m := range tests {
		if !hasTest(t, filepath.Join("..", m[1]), m[2]) {
			t.Errorf("%s names %s in %s, and there is none", securityGuide, m[2], m[1])
		}
	}
	for _, m := range namedFile.FindAllStringSubmatch(string(guide), -1) {
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Errorf("%s names %s: %v", securityGuide, m[1], err)
		}
	}
}

// hasTest reports whether a folder has a test of a name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
