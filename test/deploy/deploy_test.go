// Package deploy_test holds what the repository tells people to paste against
// what the gateway takes. What it tells them to deploy has tests of its own, in
// the module deploy/test.
package deploy_test

import (
	"os"
	"regexp"
	"testing"

	"mcpgateway/internal/config"
)

// anySecret stands in for every variable that a snippet names.
func anySecret(string) (string, bool) { return "secret", true }

func TestReadmeConfigurations(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]string{"gateway.yaml": "yaml", "mcp.json": "json"} {
		blocks := regexp.MustCompile("(?s)```"+block+"\n(.*?)```").FindAllSubmatch(data, -1)
		if len(blocks) == 0 {
			t.Errorf("README.md has no %s block", block)
		}
		for _, b := range blocks {
			if _, err := config.Parse(file, b[1], anySecret); err != nil {
				t.Errorf("README.md: %v in\n%s", err, b[1])
			}
		}
	}
}
