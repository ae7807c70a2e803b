// Package fidelity shows that the gateway loses, moves and respells nothing.
//
// A server by hand sends what no library would: unknown members at every level, unknown content types, integers beyond 2^53 and odd spellings of
// numbers and strings, repeated and empty keys, deep schemas, white space everywhere. A client by hand asks it through the gateway. What the server
// sent is held against what the client got, to the byte, and so is what the client sent against what the server got. What differs must be exactly
// what docs/fidelity.md says of that message: the expectations in this package are that list, written once more.
//
// The server is this test binary in a role of its own, as a real process on stdio and on streamable HTTP, in both eras.
package fidelity
