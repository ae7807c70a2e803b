// Package raw is a minimal MCP client of both eras. It sends the caller's JSON-RPC text over HTTP unchanged and returns the received bytes unchanged.
// It parses only the envelope of a message, so that a test sees details that a client with typed values would hide.
//
// It shares no code with the gateway, on purpose. A Client may be used by several goroutines, a Stream by one.
// Connections are not reused, so nothing of a client remains at a server after its responses.
package raw
