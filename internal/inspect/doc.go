// Package inspect answers what a person asks of a gateway: how its upstreams are, which
// rule decides a call and why, and whether the answers of an upstream keep to the
// specification. The answers are data: the commands print them, and a console can show
// them.
//
// The package declares what it reads as the interface [Gateway], which package gateway
// implements.
package inspect
