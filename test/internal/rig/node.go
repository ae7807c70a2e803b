package rig

import (
	"path/filepath"
	"testing"
)

// Entry points of the npm packages that the tests run, below test/.
const (
	conformanceJS = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
	inspectorJS   = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
	everythingJS  = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
	filesystemJS  = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
	memoryJS      = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
	thinkingJS    = "node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js"
	playwrightJS  = "node_modules/@playwright/mcp/cli.js"
	featuresJS    = "servers/features.mjs"
	openIDJS      = "servers/oidc.mjs"
)

// Node returns the command line for a script below test/. It uses the Node that was installed with the packages, not the machine's.
func Node(t testing.TB, script string, args ...string) []string {
	t.Helper()
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(root, "test")
	return append([]string{filepath.Join(test, "node_modules", ".bin", "node"), filepath.Join(test, script)}, args...)
}

// Conformance returns the command line of the official conformance suite.
func Conformance(t testing.TB, args ...string) []string { return Node(t, conformanceJS, args...) }

// Inspector returns the command line of the MCP inspector's command-line client.
func Inspector(t testing.TB, args ...string) []string {
	return Node(t, inspectorJS, append([]string{"--cli"}, args...)...)
}
