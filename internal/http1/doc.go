// Package http1 sends plain HTTP/1.1 requests in the goroutine of the caller. It
// is a drop-in for [http.Transport], which it wraps:
//
//	                ┌─ plain HTTP/1.1, small body ─▶ idle connection or dial ─▶ write ─▶ read head ─▶ body
//	RoundTrip(req) ─┤
//	                └─ anything else ──────────────▶ http.Transport
//
// http.Transport runs two goroutines for each connection, one that reads and one
// that writes. Without the switches between them and the caller, a call costs the
// gateway 15 percent less processor time; BenchmarkRoundTrip measures what this
// package saves per request. The caller's goroutine does everything here, so there is no
// HTTP/2, no TLS, no proxy, and no large body that is sent while the response
// arrives: http.Transport does all of these.
//
// # Guarantees
//
// A connection serves one request at a time. It is used again only if the
// response was read to its end, no byte followed it, neither side said "close",
// and the server has sent nothing since. So a response never belongs to an
// earlier request.
//
// A request is sent a second time only if not a single byte of it was written.
//
// Every response that this package reads, net/http reads in the same way.
// FuzzResponse compares the two.
//
// # Differences from http.Transport
//
// Trailers are dropped. The only hook of [net/http/httptrace] that is called is GotConn. The only
// headers that are added are Host and Content-Length.
//
// # Concurrency
//
// A [Transport] may be used concurrently. The body of a response may be closed
// while another goroutine reads it. The package starts no goroutine of its own; a
// timer closes idle connections.
package http1
