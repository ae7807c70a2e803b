// Package client runs real MCP clients with plans: the TypeScript SDK's clients of both generations and the MCP inspector as child processes, and
// the Go SDK's client in process. All clients accept the same steps and return the same kind of transcript, so that one test runs with every client.
//
// A Client has no state and may be used by several goroutines. Every Run uses a new connection, which is closed when Run returns.
package client
