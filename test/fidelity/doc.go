// Package fidelity verifies that the gateway does not lose, reorder or re-encode anything.
//
// A hand-written server sends messages that no library would send: unknown members at every level, unknown content types, integers beyond 2^53,
// unusual spellings of numbers and strings, repeated and empty keys, deep schemas, white space everywhere. A hand-written client sends requests
// through the gateway. The tests compare the sent bytes with the received bytes in both directions. The differences must be exactly those of
// docs/fidelity.md: the expectations of this package repeat that list.
//
// The server is this test binary in a special role, a real process on stdio and on streamable HTTP, in both eras.
package fidelity
