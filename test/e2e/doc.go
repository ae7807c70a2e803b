// Package e2e runs the real gateway between real MCP clients and real MCP servers.
//
// One gateway serves all servers at once. Every client lists, calls, reads, gets and completes by public names. The tests compare the results with
// those of a client without the gateway. The servers are shared by all clients, which run concurrently, so state that a test creates in a server
// carries the client's name.
package e2e
