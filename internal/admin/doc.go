// Package admin is the gateway's own side: health, readiness, metrics and the
// reload of the configuration, on an address of its own so that what clients can reach and what operators can
// reach are told apart by the network.
//
// The handler may be used by any number of goroutines.
package admin
