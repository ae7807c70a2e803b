// Package client drives real MCP clients with plans: the TypeScript SDK's clients of both generations and the MCP inspector as child processes,
// and the Go SDK's client in process. All take the same steps and give the same kind of transcript, so that one test runs with each of them.
//
// A Client holds no state and may be used by several goroutines; every Run is a connection of its own, which is closed when Run returns.
package client
