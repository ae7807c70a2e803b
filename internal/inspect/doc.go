// Package inspect answers the questions of an operator: the state of the upstreams,
// which rule decides a call and why, and whether the answers of an upstream conform to
// the specification. The answers are data: the commands print them, and the console
// shows them.
//
// The package reads the gateway through the interface [Gateway], which package gateway
// implements.
package inspect
