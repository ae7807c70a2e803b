// Package conformance runs the official MCP conformance suite against the gateway and checks the result of each scenario.
//
// In front of a fixture of the suite's own era the fixture is the baseline: every scenario must have the same numbers of passed and failed checks
// with the gateway as without it. A gateway in front of a server that fails a check cannot pass the check. The suite counts some checks as passed
// even if the server is dead, so its exit status is not used.
//
// In front of a fixture of the other era every check must pass, except for the checks in impossible.go, which must fail. Each of them has a reason
// there.
//
// The suite's names are fixed, so the fixture is an upstream without a prefix.
package conformance
