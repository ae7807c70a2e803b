// Command gateway serves one MCP endpoint in front of many MCP servers.
package main

import (
	"os"

	"mcpgateway/internal/upstream"
)

func main() {
	// A child process of the gateway is started through the gateway's own
	// binary, which sees to it that nothing of the child stays behind.
	upstream.SuperviseMain()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
