package rig

import (
	"os"
	"strings"
	"testing"

	"mcpgateway/test/internal/process"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		runFakeGateway(os.Args[1:])
	}
	Enter()
	goleak.VerifyTestMain(m)
}

func TestNodeIsInstalledVersion(t *testing.T) {
	node := Node(t, "")[0]
	stdout, _, err := process.Run(t.Context(), t, "", process.Options{Args: []string{node, "--version"}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(stdout, "v22.") {
		t.Errorf("node --version: %q, want v22", stdout)
	}
}

// The lock file must work with the registry of every machine.
func TestLockFileNamesNoRegistry(t *testing.T) {
	text, err := os.ReadFile("../../package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{`"resolved"`, "registry"} {
		if strings.Contains(string(text), no) {
			t.Errorf("package-lock.json contains %s: regenerate it with the settings in test/.npmrc", no)
		}
	}
}

func TestServersStart(t *testing.T) {
	for name, start := range map[string]func(testing.TB) string{
		"everything over streamable HTTP": EverythingHTTP,
		"everything over SSE":             EverythingSSE,
		"legacy fixture":                  func(t testing.TB) string { return Fixture(t, Legacy) },
		"modern fixture":                  func(t testing.TB) string { return Fixture(t, Modern) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if url := start(t); !strings.HasPrefix(url, "http://127.0.0.1:") {
				t.Errorf("URL %q is not on loopback", url)
			}
		})
	}
}
