// Package connector keeps one connection with an MCP server open, and sends calls over
// it. It implements attempts, limits, the catalog, subscriptions and log levels. It does
// not know which clients share the session, and knows no transport.
//
//	Do, Subscribe, SetLogLevel ─▶ ┌───────────┐ ─ Call, Listen ─▶ ┌───────────────┐
//	                              │ Connector │                   │ protocol.Conn │ ◀═▶ server
//	Session ◀── Snapshot, notes ─ └───────────┘ ◀ notifications ─ └───────────────┘
//	                                    └────────── Dial ─────────────▶ transport
//
// The files by topic: attempts and pauses (connector.go), calls and their repetition
// (do.go), the time and the slot of one call (callguard.go), slots of all calls
// (limiter.go), the catalog (catalogrefresh.go, lists.go, tools.go), subscriptions
// (subscriptions.go, subscriptionsync.go), the log level (loglevel.go), a method that no
// revision has (draft.go). The changing state of a connection is one struct, which two
// functions read and change (state.go).
//
// # Guarantees
//
// A call ends with an answer of the server, or with an error that says what went wrong.
// A malformed answer ends one call, never the conversation. No call is sent twice unless
// that is certainly safe. Nothing uses the back channel of a call after the call has
// ended.
//
// # Concurrency
//
// [Connector.Run] is one goroutine, which opens and ends conversations and gathers the
// catalog. In each conversation one more goroutine keeps the subscriptions. A [Snapshot]
// is immutable. All other methods may be called concurrently. Run returns when every
// goroutine, process and connection of the connector has ended.
package connector
