// Package telemetry makes the instruments that the rest of the gateway is
// handed: the metrics registry, the logger and the file of the audit. It knows
// nothing of what is measured or recorded: every package owns its metrics and its
// lines, and is handed a logger.
//
// What it returns may be used by any number of goroutines.
package telemetry
