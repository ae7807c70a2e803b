// Package upstream decides which clients share a session with an MCP server, and keeps
// those sessions open: [Sessions] for each server, each session with a [Connector].
//
//	Do(call) ─▶ Sessions ─▶ ┌───────────┐ ──Call──▶ ┌──────┐
//	                        │ Connector │           │ Conn │ ◀═══▶ server
//	Observer ◀── Snapshot ─ └───────────┘ ◀─ sink ─ └──────┘
//
// Sessions know who shares a session (sessions.go, sessionkey.go, sessionscope.go). The
// catalog session gathers the catalog and determines the state of the upstream; the
// others belong to a client, a principal, or a set of capabilities. If a server may list
// something else for each principal, the sessions of principals gather lists too
// (principalcatalog.go). A gateway with only one client has one session with each
// server (onlyclient.go).
//
// A connector knows the life of a connection: attempts and pauses (connector.go), calls
// with their limits and repetitions (do.go, callguard.go, limiter.go), the catalog
// (catalogrefresh.go, lists.go), subscriptions (subscriptions.go, subscriptionsync.go)
// and the log level (loglevel.go). What changes in that life is one struct behind one
// door (state.go). A [protocol.Conn] knows one conversation in one era: ids, framing,
// asks. No Conn knows a policy of the connector, and no part of the connector an era.
//
// # What is guaranteed
//
// A call ends with an answer of the server, or with an error that says what went wrong.
// A malformed answer ends one call, never the conversation. No call is sent twice unless
// that is certainly harmless. Nothing uses the back channel of a call after the call has
// ended. An ask or notification of a server reaches only the client to which its call,
// task or session belongs; if that is uncertain, it reaches no client.
//
// # Concurrency
//
// [Sessions.Run] is one goroutine, and each [connector.Connector.Run] another one, which opens and
// ends conversations and gathers catalogs. In each conversation one more goroutine keeps
// the subscriptions. A [Snapshot] is immutable. Everything else may be called by many
// goroutines at once. Run returns when every goroutine, process and connection of the
// connector has ended. A child process and its descendants end with the gateway, even if
// the gateway is killed: see package process.
//
// # What it does not know
//
// The package knows no public names, no policy and no other upstream. Params and results
// pass unchanged but for ids, progress tokens and the metadata of the era.
package upstream
