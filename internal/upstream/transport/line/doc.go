// Package line is what the transports over lines have in common: each message is a line
// of JSON on a pair of streams, in both eras.
//
//	Opener ──▶ Link (two streams, Stop) ──▶ dialer: initialize, server/discover
//	                                          │
//	Call ──▶ writer ──▶ In ──▶ server ──▶ Out ──▶ reader ──▶ pending calls, sink
//
// # Guarantees
//
// A line that is not a message is logged and skipped. A malformed response ends one
// call, never the conversation. A server that does not read blocks no caller for longer
// than the caller's context lasts, and what waits to be written is bounded.
//
// # Concurrency
//
// A [Conn] has two goroutines, a reader and a writer; a modern server adds those of its
// subscriptions. They end with Run.
package line
