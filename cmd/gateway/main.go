// Command gateway serves one MCP endpoint in front of many MCP servers.
package main

import (
	"os"
	"runtime/debug"

	"mcpgateway/internal/upstream/process"
)

// gcPercent lets the heap grow to five times the live memory before a collection. A gateway holds little
// memory and allocates much for a short time: with the default, collections take a tenth of the
// processor to save a few megabytes. GOGC and GOMEMLIMIT in the environment take precedence.
const gcPercent = 400

func main() {
	// The gateway starts child processes through its own binary, which ends all processes of a child
	// with it.
	process.SuperviseMain()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
