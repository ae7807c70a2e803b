// Package gateway wires the parts together. It is the only package that knows all others:
// it makes upstreams, table, router and front end of a configuration and its compiled rules
// (package ruleset), and owns their life.
//
// There are two loops, and they meet at one pointer:
//
//	control loop (slow)   connectors gather ─▶ catalog.Build ─▶ swap ─▶ list_changed
//	data path   (fast)    front end ─▶ router (loads the pointer once) ─▶ connector
//
// A principal to whom upstreams list items of its own has a table of its own, behind the
// same pointer: see package personal.
//
// A configuration in force is a generation. Its connections to upstreams outlive it if the
// next generation configures them in the same way: see [Gateway.Reload]. Calls in progress
// are counted in epochs, so that a connection is closed after the last call that may use
// it. Only the control loop replaces the generation and activates connections; all other
// code reads a pointer.
//
// Run may be called once. Everything that New made has ended when Run returns.
package gateway
