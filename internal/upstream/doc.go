// Package upstream talks to MCP servers: [Sessions] for each, made of
// connectors, each of which opens a conversation, keeps it, and opens it again when
// it is lost.
//
//	 Do(call) ─▶ Sessions ─▶ ┌───────────┐ ──call──▶ ┌──────┐
//	                         │ Connector │           │ conn │ ◀═══▶ server
//	Observer ◀── Snapshot ── └───────────┘ ◀─inbox── └──────┘
//	                               │ dial
//	              line_*: child process or in-process pipe, both eras
//	              http_*, sse_*: streamable HTTP, both eras, and HTTP+SSE
//
// Sessions know who shares a session with the server (sessions.go, place.go): one
// connector is the head, which gathers the catalog; others are those of clients or
// principals, each with a persona that says what the session declares and whose it
// is. Where what the server lists depends on who asks, those of principals gather
// lists too (own.go).
//
// Whether a server knows the draft SEP-2093 the connector finds out in each
// conversation by the first request of it (draft.go).
//
// The connector knows about life: attempts and pauses, how long a call may
// wait and take, how many may run, which may be sent twice, what the server
// lists. A conn knows about one conversation in one era: ids, framing, asks.
// The seam between them is in conn.go; no conn knows a clock, and no part of the
// connector an era.
//
// # What is guaranteed
//
// A call ends with an answer of the server, or with an error that says what went
// wrong; a malformed answer ends one call, never the conversation. No call is
// sent twice unless that is certainly harmless. A call's back channel is left
// alone once the call has ended. What an upstream asks or says reaches only the
// client whose call, task or session it belongs to; where that is in doubt, nobody.
//
// # Concurrency
//
// Sessions have one goroutine, that of [Sessions.Run], and those of their
// connectors. Each connector has one, that of [Connector.Run], which opens and
// ends conversations and gathers catalogs, and in each conversation one more that
// keeps subscriptions to resources (keep.go); a [Snapshot] is immutable. Everything
// else may be called by many goroutines at once. Run returns when every
// goroutine, process and connection of the connector has ended. A child process
// and all that it started end with the gateway, also when that is killed: see
// [process.SuperviseMain].
//
// # What it is not
//
// It knows no public names, no policy and no other upstream. Params and results
// pass as they are but for ids, progress tokens and the metadata of the era.
package upstream
