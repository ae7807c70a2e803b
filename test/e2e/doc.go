// Package e2e runs the real gateway between real MCP clients and real MCP servers.
//
// One gateway stands in front of all servers at once. Every client lists, calls, reads, gets and completes through public names, and what it sees
// is held against what a client sees that asks the server itself. The servers are shared by all clients, which run side by side: what a test
// leaves in a server carries the client's name.
package e2e
