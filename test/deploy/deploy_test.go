// Package deploy_test holds what the repository tells people to deploy or to
// paste against what the gateway takes.
package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"testing"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/config"
)

// anySecret stands in for every variable that a snippet names.
func anySecret(string) (string, bool) { return "secret", true }

func TestSidecarConfiguration(t *testing.T) {
	data, err := os.ReadFile("../../deploy/sidecar/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var object struct {
			Kind string
			Data map[string]string
		}
		err := dec.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := object.Data["gateway.yaml"]; object.Kind == "ConfigMap" && ok {
			found++
			if _, err := config.Parse("gateway.yaml", []byte(text), anySecret); err != nil {
				t.Errorf("the ConfigMap's gateway.yaml: %v", err)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d ConfigMaps with a gateway.yaml, want 1", found)
	}
}

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
