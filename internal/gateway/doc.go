// Package gateway wires the parts together. It is the only package that knows all others:
// from a configuration and its compiled rules (package ruleset) it makes upstreams, table,
// router and front end, and it controls their lifetime.
//
// There are two loops, and they meet at one pointer:
//
//	control loop (slow)   connectors gather ─▶ catalog.Build ─▶ swap ─▶ list_changed
//	data path   (fast)    front end ─▶ router (loads the pointer once) ─▶ connector
//
// If an upstream lists different items for a principal, the principal has its own table,
// behind the same pointer: see package personal.
//
// A configuration in force is a generation. Its connections to upstreams outlive it if the
// next generation configures them in the same way: see [Gateway.Reload]. Calls in progress
// are counted in epochs, so that a connection is closed after the last call that may use
// it. Only the control loop replaces the generation and activates connections; all other
// code reads a pointer.
//
// Run may be called once. When it returns, all goroutines, processes and connections have
// ended.
package gateway
