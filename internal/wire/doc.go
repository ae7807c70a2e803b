// Package wire is the ground that every other package stands on: JSON-RPC
// envelopes, strict parsing, editing of raw JSON, event-stream and line
// framing, protocol revisions and error codes.
//
// A message is parsed once, strictly, at the edge where it arrives. What was
// parsed is what is decided on, and what was parsed is what is forwarded:
// params and results stay the bytes that they were, so numbers, key order and
// members that nobody here knows reach the other side. Whoever has to change
// a message changes single members of it with an [Edit].
//
//	bytes ──Parse──▶ Message{ID, Method, Params, Result, Error}   (slices of bytes)
//	                     │
//	                  ValueOf(Params).Get("name")                   (a place in the bytes)
//	                     │
//	                  Edit.Replace(place, new) … Edit.Bytes()        (other bytes untouched)
//
// The package is pure: it knows no network, no logger and nothing else of this
// module. Values are safe for concurrent reading; an [Edit], an [SSEReader] and
// a [LineReader] belong to one goroutine at a time.
package wire
