// Package raw is an MCP client by hand: it writes JSON-RPC text over HTTP as it is told to, in the manner of either era, and hands back the very
// bytes that came. It parses no more of a message than its envelope, so a test sees what no client made of typed values would show it.
//
// It shares no code with the gateway, on purpose. A Client may be used by several goroutines; a Stream belongs to whoever opened it.
// Connections are not kept, so nothing of a client stays at a server once its answers were read.
package raw
