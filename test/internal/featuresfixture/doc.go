// Command featuresfixture is an MCP server of the Go SDK for one era. It has one tool, prompt or resource for every feature of the protocol.
//
// A legacy server sends requests to its client during a call. A modern server answers input_required and is called again. The tools that ask
// questions are defined once, as dialogs; the fixture carries them out for each era and does not use the SDK's own compatibility code.
// test/servers/features.mjs is the same server with the TypeScript SDK. tools.go and dialogs.go define the tools.
//
// All clients share the state (the watched resource, grown items, cancelled calls), which ends with the process.
package main
