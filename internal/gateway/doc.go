// Package gateway puts the parts together. It is the only package that knows
// everyone: it translates the configuration, wires connectors, table, router and
// front end, and owns their life.
//
// There are two loops, and they meet at one pointer:
//
//	control loop (slow)   connectors' catalogs ─▶ catalog.Build ─▶ swap ─▶ list_changed
//	data path   (fast)    front end ─▶ router (loads the pointer once) ─▶ connector
//
// Principals to whom upstreams list something of their own have tables of their own,
// which hang at the same pointer: see owners.go.
//
// A configuration at work is a lineup, and what it connects to are links, which
// outlive it where the next configuration has the same connection: see
// [Gateway.Reload]. The control loop alone changes which lineup is in place and which
// links serve; everybody else reads a pointer.
//
// Run may be called once. Everything that New made has ended when Run returns.
package gateway
