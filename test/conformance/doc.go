// Package conformance runs the official MCP conformance suite against the gateway and judges what it says, scenario by scenario.
//
// In front of a fixture of the suite's own era the measure is the fixture itself: every scenario must have as many passed and as many failed checks
// through the gateway as without it. A gateway in front of a server that fails a check cannot pass it, and the suite counts some checks as passed on
// a server that is dead, so the exit status says nothing.
//
// In front of a fixture of the other era every check must pass, save those that impossible.go names, each with the reason why it cannot; those must
// fail.
//
// The suite's names are fixed, so the fixture stands behind the gateway without a prefix.
package conformance
