// Package admin serves operators: health, readiness, metrics, runtime profiles, the reload of the configuration, and the
// console, whose handler is passed in. It has a separate address, so that a network policy can separate operators from
// clients.
//
// The handler may be called concurrently.
package admin
