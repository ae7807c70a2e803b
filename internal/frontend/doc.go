// Package frontend speaks the Model Context Protocol to clients: streamable HTTP
// for both eras on one URL, HTTP+SSE for legacy clients, and stdio for both. It
// turns what a client sends into calls, gives them to a [Handler], and turns what
// comes back into what that client's revision understands.
//
//	HTTP request
//	   │  guard: Host, Origin, CORS      (origin; cors.go)
//	   │  proof of who calls             (Options.Authenticate)
//	   │  room among all requests        (budget.go)
//	   ▼  body, bounded, parsed once     (server.go, body.go)
//	 era of the message                  (era.go)
//	   ├── legacy: session ── exchange   (legacy.go, session.go, batch.go)
//	   └── modern: ────────── exchange   (modern.go, listen.go), parkable (park.go)
//	                             │  ▲
//	                Handler.Handle  │ BackChannel: Notify, Ask  (exchange.go, ask.go)
//	                             ▼  │
//	   answer: one JSON body, or a stream of events as soon as
//	   something comes before the result  (post.go, stream.go)
//
// A session and an exchange know only an outlet, which takes messages for the
// client. On HTTP+SSE and stdio everything for the client goes one way: there a
// conversation takes the place of the post (conversation.go, sse.go, stdio.go).
//
// A stream is what the specification calls so; a conn is one connection that
// carries it. Streams of legacy sessions over streamable HTTP record their events
// in the session's [EventLog], so that the client can continue them on another
// connection (resume.go, get.go).
//
// # Guarantees
//
// A [Server] may be used by any number of goroutines at once. A call runs on the
// goroutine of its HTTP request. A further goroutine exists only for a request
// whose answer has become a stream of events, for each request of a batch, and
// for each of a conversation; it ends before the request, or the conversation,
// does. A call of a modern client that can be asked
// something runs on one of its own, which may outlive the request: see parkable.
// It ends with its result, with the last request that waits for it, when it
// lapses, and with Run. No lock is held while a Handler or a client is
// waited for. The order of locks is: session table, session or post, shelf,
// stream; conversation set, conversation, subscription set, stream; and parkable,
// park table.
//
// A message goes on exactly one stream. Notifications of a call arrive in the
// order in which they were made and before its result; between different streams
// there is no order. Changes of lists and updates of resources coalesce, and one
// that finds no open stream of its session is delivered when the next one opens.
// A client that does not read
// loses its connection when it has fallen behind by more than the bound; nobody
// waits for it. That of a call in a session carries nothing more then, and ends
// with the call. On stdio, where there is but one, it loses what is no answer.
//
// What clients hold is bounded, each one's share and all together: the bytes of
// bodies, the requests that run, sessions, streams, parked calls, event logs. A
// body must come at some rate, and an answer be read: within seconds by whoever
// has not read more than is left for others. A message that cannot be read is
// answered under its id where that can be told.
//
// A stream that is resumed brings every event after the one that the client names,
// once and in order, or is refused, when the log has forgotten some of them. What
// is said while nothing carries the stream of a call is kept for it; its response
// goes nowhere else. List changes that could not be written go onto another stream.
//
// The end of the connection cancels a modern request and never a legacy one,
// save on HTTP+SSE and stdio, where it ends the session
// (2025-11-25, basic/transports, "Sending Messages to the Server"; 2026-07-28,
// basic/transports/streamable-http, "Cancellation").
//
// A call that is refused for a bound or for a scope is answered with the status that
// HTTP has for it, in both eras, where the answer is JSON.
//
// The package does not route, decide who may do what, or log calls. It logs
// faults of the protocol, without anything that a client put into a body.
package frontend
