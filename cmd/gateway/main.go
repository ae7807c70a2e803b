// Command gateway serves one MCP endpoint in front of many MCP servers.
package main

import (
	"os"
	"runtime/debug"

	"mcpgateway/internal/upstream/process"
)

// gcPercent lets the heap grow to five times of what lives before it is
// collected. A gateway holds little and allocates much for a short time: at the
// default, collections take a tenth of the processor for the sake of a few
// megabytes. GOGC and GOMEMLIMIT in the environment go before it.
const gcPercent = 400

func main() {
	// A child process of the gateway is started through the gateway's own
	// binary, which sees to it that nothing of the child stays behind.
	process.SuperviseMain()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
