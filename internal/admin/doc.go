// Package admin serves operators: health, readiness, metrics, runtime profiles and the
// reload of the configuration. It has an address of its own, so that the network can
// separate what operators reach from what clients reach.
//
// The handler may be called by many goroutines at once.
package admin
