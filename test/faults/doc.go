// Package faults puts servers that fail in every way behind one gateway, all at once, next to two that work, and shows that each fails alone: the
// others stay usable, what clients read is clear and tells no secrets, probes and metrics tell the truth, who comes back is used with the next
// call, and nothing is left behind: no goroutine, no process, no file descriptor.
//
// The servers are this test binary in a role of its own, as real processes that write JSON-RPC by hand, on stdio and on streamable HTTP. What has
// to be waited for is a condition that can be seen from outside, asked for again and again within a bound.
package faults
