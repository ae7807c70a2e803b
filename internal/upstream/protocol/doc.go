// Package protocol is the contract between the connectors of upstreams and the
// transports, and the parts of MCP that every transport needs.
//
//	connector ── Dialer.Dial ──▶ transport ──▶ Conn, Hello
//	connector ── Conn.Call ────▶ PendingCalls (ids, progress tokens) ──▶ server
//	NotificationSink ◀── transport ◀── notifications that belong to no call
//	SessionOwner ◀────── ServerRequests ◀── requests of the server
//
// A [Conn] is one conversation in one era: it knows ids, framing and the requests of
// the server, but no timeouts, limits or retries. A connector knows these, but no era.
//
// # Guarantees
//
// A message of the server that does not name its call is delivered only if all pending
// calls, or the session, belong to one client. So content for one client is never shown
// to another.
//
// A [CallError] says whether the server can have begun the call.
//
// # Concurrency
//
// [PendingCalls], [ServerRequests], [Stream] and [Liveness] may be used concurrently;
// the comment of [Conn] says what its methods promise.
//
// The package knows no transport, no public names and no policy.
package protocol
