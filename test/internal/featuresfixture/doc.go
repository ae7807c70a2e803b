// Command featuresfixture is an MCP server of the Go SDK with one tool, prompt or resource for everything that the protocol can do, in one era.
//
// A legacy server asks its client while a call runs; a modern one answers input_required and is called again. The tools that ask are written down
// once, as dialogs, and each era carries them out in its own way: what the SDK would do by itself for the other era is not used.
// test/servers/features.mjs is the same server with the TypeScript SDK. What the tools do is told in tools.go and dialogs.go.
//
// State (the watched resource, what has grown, who was cancelled) is shared by all clients, and ends with the process.
package main
