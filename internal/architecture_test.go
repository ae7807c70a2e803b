package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatIsThere compares ARCHITECTURE.md with the packages: it names each of
// them, and each path in it exists.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	data, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(data), -1) {
		named[m[1]] = true
		path := strings.TrimSuffix(strings.TrimSuffix(m[1], "/…"), "/")
		if !strings.Contains(path, "/") || !strings.HasSuffix(m[1], ".go") && !isPackage(strings.Split(path, "/")[0]) {
			continue
		}
		inside, _ := filepath.Glob(path)
		outside, _ := filepath.Glob(filepath.Join("..", path))
		if len(inside)+len(outside) == 0 {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", m[1])
		}
	}
	testHelpers := map[string]bool{"gatewaytest": true, "polltest": true}
	for name := range packages(t) {
		if !strings.Contains(name, "/") && !testHelpers[name] && !named[name] {
			t.Errorf("ARCHITECTURE.md does not name the package %s", name)
		}
	}
}

func isPackage(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
