// Package frontend speaks the Model Context Protocol to clients: streamable HTTP of
// both eras on one URL, HTTP+SSE for legacy clients, and stdio for both eras. It turns
// the messages of clients into calls, passes them to a [Handler], and answers in the
// form of each client's revision.
//
//	HTTP request
//	   │  Host, Origin, CORS             (origin; cors.go)
//	   │  authentication                 (Options.Authenticate; http.go)
//	   │  budget of running requests     (fairshare; reservation.go)
//	   ▼  body, bounded, parsed once     (body.go)
//	 era of the message                  (era.go)
//	   ├── legacy: session ── exchange   (legacy.go, batch.go; session)
//	   └── modern: ────────── exchange   (modern.go; park)
//	                             │  ▲
//	                Handler.Handle  │ BackChannel: Notify, Ask  (exchange.go, ask.go)
//	                             ▼  │
//	   response: a JSON body, or a stream of events as soon as
//	   a message precedes the result     (response.go; stream)
//
// Over HTTP+SSE and stdio all messages to the client use one channel. There a peer
// takes the place of the response (peer.go, sse.go, stdio.go). Streams that belong to no
// call are GET streams of legacy sessions (get.go) and listen streams of modern clients
// (listen.go, subscription.go).
//
// The packages below this one do not know how messages travel: stream carries messages
// to one client and resumes broken connections, session holds legacy sessions, and park
// holds calls that wait for a retry of a modern client.
//
// # Guarantees
//
// A [Server] may be used concurrently. A call runs on the goroutine of its HTTP request. There
// is one more goroutine for a response that has become a stream of events, for each request of a
// batch, and for each request of a peer; it ends before the request, or the peer, does. A call
// that can be parked has a separate goroutine, which may outlive the request, and ends with its
// result, with the last request that waits for it, with its expiry, or with Run. No lock is held
// while the server waits for a Handler or a client. The order of locks is: session table,
// session or response, replay store, stream; peer set, peer, subscription set, stream; parkable
// call, park table.
//
// A message goes onto exactly one stream. Notifications of a call arrive in order and
// before its result. Different streams have no common order. List changes and resource
// updates coalesce, and wait if their session has no open stream.
//
// The server bounds the resources of each client and of all clients together: bytes of bodies,
// running requests, sessions, streams, parked calls, event logs. A body must arrive at some
// rate, and answers must be read at some rate. A client that falls behind on a stream loses the
// connection; its call in a session continues and ends without it. On stdio, where there is one
// connection only, it loses messages that are not responses.
//
// The end of the connection cancels a modern request. It does not cancel a legacy
// request, except on HTTP+SSE and stdio, where it ends the session (2025-11-25,
// basic/transports, "Sending Messages to the Server"; 2026-07-28,
// basic/transports/streamable-http, "Cancellation").
//
// A call that is refused for a limit or a scope is answered with the HTTP status for it,
// in both eras, if the response is JSON. A message that cannot be parsed is answered with
// its id if the id can be found.
//
// Servers with the same keys, a store and [Replicas] serve legacy sessions together: replicas.go
// forwards messages of clients to the right server, shared.go keeps the shared state of
// sessions, resume.go and resume_serve.go continue a stream at another server. If the server
// already has the session of a call, the call does not use the store.
//
// The package does not route, does not decide about permissions, and does not log
// calls. It logs violations of the protocol, without any part of a body.
package frontend
