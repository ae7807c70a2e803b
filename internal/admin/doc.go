// Package admin serves operators: health, readiness, metrics, runtime profiles, the
// reload of the configuration, and the console, which is handed in. It has an address of its own, so that the network can
// separate what operators reach from what clients reach.
//
// The handler may be called by many goroutines at once.
package admin
