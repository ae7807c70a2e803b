// Package telemetry makes the instruments that the rest of the gateway is
// handed: the metrics registry and the logger. It knows nothing of what is
// measured: every package owns its metrics and is handed a logger.
//
// What it returns may be used by any number of goroutines.
package telemetry
