// Package frontend speaks the Model Context Protocol to clients: streamable HTTP
// for both eras on one URL. It turns what a client sends into calls, gives them
// to a [Handler], and turns what comes back into what that client's revision
// understands.
//
//	HTTP request
//	   │  guard: Host, Origin, CORS      (guard.go)
//	   │  proof of who calls             (Options.Authenticate)
//	   ▼  body, bounded, parsed once     (server.go, body.go)
//	 era of the message                  (era.go)
//	   ├── legacy: session ── exchange   (legacy.go, session.go, batch.go)
//	   └── modern: ────────── exchange   (modern.go, listen.go)
//	                             │  ▲
//	                Handler.Handle  │ BackChannel: Notify, Ask  (exchange.go, ask.go)
//	                             ▼  │
//	   answer: one JSON body, or a stream of events as soon as
//	   something comes before the result  (post.go, stream.go)
//
// What knows of HTTP ends at the post and the stream. A session and an exchange
// know only an outlet, which takes messages for the client, so that other
// transports of legacy conversations can stand on them.
//
// # Guarantees
//
// A [Server] may be used by any number of goroutines at once. A call runs on the
// goroutine of its HTTP request. A further goroutine exists only for a request
// whose answer has become a stream of events, and for each request of a batch;
// it ends before the request does. No lock is held while a Handler or a client is
// waited for. The order of locks is: session table, session, post, stream.
//
// A message goes on exactly one stream. Notifications of a call arrive in the
// order in which they were made and before its result; between different streams
// there is no order. List changes coalesce, and one that finds no open stream of
// its session is delivered when the next one opens. A client that does not read
// loses its stream when it has fallen behind by more than the bound; nobody waits
// for it.
//
// The end of the connection cancels a modern request and never a legacy one
// (2025-11-25, basic/transports, "Sending Messages to the Server"; 2026-07-28,
// basic/transports/streamable-http, "Cancellation").
//
// The package does not route, decide who may do what, or log calls. It logs
// faults of the protocol, without anything that a client put into a body.
package frontend
