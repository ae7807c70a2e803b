// Package traces tests what a real OpenTelemetry collector gets of the gateway: the OTLP receiver of the
// OpenTelemetry Collector, in the module below collector, which the tests build.
package traces
