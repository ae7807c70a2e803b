// Package telemetry makes the metrics registry, the logger and the audit file. It does
// not know what is measured or recorded: every package owns its metrics and its lines, and
// is handed a registry and a logger.
//
// Everything that it returns may be used by many goroutines at once.
package telemetry
