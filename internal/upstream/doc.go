// Package upstream decides which clients share a session with an MCP server, and keeps
// those sessions open: [Sessions] for each server, each with a [connector.Connector].
//
//	gateway, router
//	   │ Do, Subscribe, Session       ▲ Observer, Outside
//	   ▼                              │
//	upstream             who shares a session (this package)
//	   │ connector.Options            ▲ connector.Session
//	   ▼                              │
//	upstream/connector   the life of one connection: attempts, limits, lists, subscriptions
//	   │ protocol.Conn                ▲ protocol.NotificationSink, SessionOwner
//	   ▼                              │
//	upstream/transport   stdio, streamable HTTP, HTTP+SSE, in this process
//	   ▼
//	the server
//
// [Sessions] open a session for each scope, and give each call its session (sessions.go,
// sessionkey.go). A scope says which clients share a session, and which client answers
// the requests of the server (sessionscope.go, owner.go). The catalog session gathers the
// catalog and determines the state of the upstream; the others belong to a client, a
// principal, or a set of capabilities. If a server may list different items for each
// principal, the sessions of principals gather lists too (principalcatalog.go). A gateway
// with only one client has one session with each server (onlyclient.go).
//
// No connector knows a scope or a transport, and no transport a connector: package
// protocol is the contract between both.
//
// # What is guaranteed
//
// A call ends with an answer of the server, or with an error that says what went wrong. A
// malformed answer ends one call, never the conversation. No call is sent twice unless
// that is certainly safe. Nothing uses the back channel of a call after the call has
// ended. An ask or notification of a server reaches only the client to which its call,
// task or session belongs; if that is uncertain, it reaches no client.
//
// # Concurrency
//
// [Sessions.Run] is one goroutine, and the [connector.Connector.Run] of each session
// another one. Everything else may be called concurrently. Run returns when every
// goroutine, process and connection of the upstream has ended. A child process and its
// descendants end with the gateway, even if the gateway is killed: see package process.
//
// # What it does not know
//
// The package knows no public names, no policy and no other upstream. Params and results
// pass unchanged but for ids, progress tokens and the metadata of the era.
package upstream
