// Package http1server serves plain requests of HTTP/1.1 at less cost than net/http, in
// front of an [http.Server] that serves everything else:
//
//	                     ┌─ GET, POST or DELETE, in the strictest form ─▶ handler ─▶ next request
//	connection ─▶ head ──┤
//	                     └─ anything else ─▶ http.Server, with all bytes read so far
//
// net/http starts a goroutine for each request, which notices that the client is gone,
// and ends it before the answer. It sets four deadlines, and parses headers line by line.
// Here a connection has one goroutine, deadlines are set only for reads and writes that
// may block, and a second goroutine watches the client of a request that takes long. An
// answer that may be silent for hours needs neither that goroutine nor its request, see
// below.
//
// # Requests
//
// A request is served here if its head has exactly the form of RFC 9112 without any of
// its tolerances and options: a path without escapes and query, one Host, lines that end
// with CRLF and are not folded, and a body of a length that one Content-Length gives. No
// header may change the framing or the connection, except "Connection: close" and
// "Connection: keep-alive". The head has up to 16 KiB.
//
// Every other connection is handed to the http.Server with its first unserved request, and
// stays there. So only net/http interprets unusual requests. FuzzRequest checks that
// net/http reads everything that is served here in the same way.
//
// # Guarantees
//
// A handler sees the same as behind net/http: the request, its context, which ends when
// the handler returns or the client is gone, the same rules for answers, and deadlines
// that it sets with [http.ResponseController]. Deadlines for writing may come up to a second
// late. The end of the client is noticed up to 100 ms later.
//
// An answer that fits into a buffer is sent with its head by a single write after the
// handler has returned.
//
// A handler can write several slices with one system call: the ResponseWriter has the method
// WritePieces(...[]byte) error.
//
// # Silent streams
//
// A ResponseWriter has further methods for answers that wait for events:
//
//	Continue(rest func(context.Context, http.ResponseWriter))
//	Wait(until time.Time) bool
//	Wake()
//
// The function that is passed to Continue runs after the handler has returned, with a small
// stack and without the request. Wait waits for Wake, and notices that the client is gone.
// So a silent stream takes about 2 KiB of heap and 2 to 4 KiB of stack, and has one
// goroutine.
//
// # Differences from net/http
//
// There are no trailers, no hijacking, no full duplex, and no other transfer codings than
// chunked. An informational status is not sent.
//
// # Concurrency
//
// The methods of [Server] may be called concurrently. A handler may use its
// ResponseWriter from one goroutine at a time.
package http1server
