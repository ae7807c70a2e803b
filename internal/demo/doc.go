// Package demo provides the built-in upstreams that the gateway serves when it is started
// without a configuration, so that the first command of a new user shows every feature.
//
// There are three, each a small MCP server made with the Go SDK:
//
//   - notes: resources, a resource template, subscriptions, list changes,
//     completion, a prompt with an embedded resource, structured results;
//   - clock: structured results, progress and log messages of a slow tool,
//     image content, a binary resource;
//   - cafe: tools that ask the user with a form (elicitation) and the model for a
//     text (sampling).
//
// notes and clock both have a tool called "search": the clash is deliberate and
// shows why the gateway prefixes names.
//
// # How they are reached
//
// [Server.Start] gives two byte streams with one JSON-RPC message a line, the
// shape of a stdio server's stdin and stdout (spec 2025-11-25,
// basic/transports#stdio). The gateway's own framing reads and writes them; no
// process is started and no port opened.
//
// A session speaks one era. It is legacy if the first request is initialize and
// modern if it is server/discover or another request with a modern _meta: the
// SDK refuses an initialize that comes after a server/discover on the same
// streams, so a peer that chooses legacy after such a probe starts a second
// session.
//
// # Concurrency and life cycle
//
// All exported functions are safe for concurrent use. Sessions of one [Server] share its
// state (a note added in one is seen in all); two calls of [Servers] share nothing.
// Nothing runs until Start. When the wait function of Start returns, all goroutines of
// the session have ended. State is in memory and bounded.
package demo
