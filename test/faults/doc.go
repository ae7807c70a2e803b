// Package faults puts servers with all kinds of failures behind one gateway, together with two servers that work. It verifies that each failure is
// isolated: the other servers stay usable, clients get clear errors without secrets, probes and metrics are correct, a recovered server is used by
// the next call, and no goroutine, process or file descriptor leaks.
//
// The servers are this test binary in a special role. They are real processes that write JSON-RPC by hand, on stdio and on streamable HTTP. The tests
// wait by polling observable conditions, with a timeout.
package faults
