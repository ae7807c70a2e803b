// Package wire is the base of all other packages: JSON-RPC envelopes, strict parsing,
// editing of raw JSON, framing of event streams and lines, protocol revisions, error codes,
// and the table of methods.
//
// A message is parsed once, strictly, where it arrives. The gateway decides on the parsed
// bytes and forwards the same bytes: params and results stay as they were sent, so that
// numbers, key order and unknown members reach the other side. Packages that have to change
// a message change single members of it with an [Edit].
//
//	bytes ──Parse──▶ Message{ID, Method, Params, Result, Error}   (slices of bytes)
//	                     │
//	                  ValueOf(Params).Get("name")                   (a view of the bytes)
//	                     │
//	                  Edit.Replace(value, new) … Edit.Bytes()        (other bytes untouched)
//
// A large message stays in the [Buffer] into which it was read, whose memory is reused. A
// [Long] lets readers skip its long strings.
//
// The properties of a method are columns of the table in methods.go, which [MethodOf] looks
// up. No other package compares names of methods.
//
// The package is pure: it uses no network and no logger, and imports nothing of this module.
// Values may be read concurrently; a [Buffer], an [Edit], an [SSEReader] and a [LineReader]
// belong to one goroutine at a time.
package wire
