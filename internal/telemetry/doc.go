// Package telemetry makes the metrics registry, the logger and the audit file. Every
// other package defines its own metrics, log lines and audit lines, and is handed a registry
// and a logger.
//
// Everything that it returns may be used concurrently.
package telemetry
