// Command gateway serves one MCP endpoint in front of many MCP servers.
package main

import (
	"os"

	"mcpgateway/internal/upstream/process"
)

func main() {
	// The gateway starts child processes through its own binary, which ends all processes of a child
	// with it.
	process.SuperviseMain()
	if os.Getenv("GOGC") == "" { // the environment takes precedence
		paceCollections(setPercent)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
