// Package line has the common parts of the transports over lines: each message is a
// line of JSON on a pair of streams, in both eras.
//
//	Opener ──▶ Link (two streams, Stop) ──▶ dialer: initialize, server/discover
//	                                          │
//	Call ──▶ writer ──▶ In ──▶ server ──▶ Out ──▶ reader ──▶ pending calls, sink
//
// # Guarantees
//
// A line that is not a message is logged and skipped. A malformed response ends one
// call, never the conversation. A server that does not read blocks a caller at most
// until the end of the caller's context, and the queue of lines to write is bounded.
//
// # Concurrency
//
// A [Conn] has two goroutines, a reader and a writer; a modern server adds those of its
// subscriptions. They end with Run.
package line
