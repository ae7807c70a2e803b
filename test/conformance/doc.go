// Package conformance runs the official MCP conformance suite against the gateway and holds what it says, scenario by scenario, against what it
// says of the server behind the gateway when asked directly.
//
// A gateway in front of a server that fails a check cannot pass it, and the suite counts some checks as passed on a server that is dead. So the
// measure is not the exit status: every scenario must have as many passed and as many failed checks through the gateway as without it. Where a
// scenario cannot be equal, exceptions.go names it with the reason; an exception for a scenario that has become equal fails the test as well.
//
// The suite's names are fixed, so the fixture stands behind the gateway without a prefix.
package conformance
