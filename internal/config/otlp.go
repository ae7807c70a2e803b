package config

import (
	"slices"
	"strings"
)

// OTLPProtocol is how telemetry travels to the collector.
type OTLPProtocol string

// The values of telemetry.otlp.protocol.
const (
	OTLPGRPC OTLPProtocol = "grpc"
	OTLPHTTP OTLPProtocol = "http"
)

// Signal is a kind of telemetry.
type Signal string

// The values of telemetry.otlp.signals.
const (
	SignalTraces  Signal = "traces"
	SignalMetrics Signal = "metrics"
	SignalLogs    Signal = "logs"
)

// OTLP is the OpenTelemetry collector that gets traces, metrics and log lines.
type OTLP struct {
	Endpoint string            `yaml:"endpoint" format:"base-url" doc:"URL of the collector, such as http://127.0.0.1:4317, over HTTP http://127.0.0.1:4318; empty means none"`
	Protocol OTLPProtocol      `yaml:"protocol" default:"grpc" enum:"grpc|http" doc:"OTLP over gRPC or over HTTP, which appends /v1/traces, /v1/metrics and /v1/logs"`
	Headers  map[string]Secret `yaml:"headers" format:"plain-headers" doc:"headers of every request to the collector, such as a token"`
	TLS      ClientTLS         `yaml:"tls" doc:"TLS toward the collector, for endpoints that begin with https"`
	Sample   float64           `yaml:"sample" default:"1" min:"0" max:"1" doc:"ratio of exported traces among those that begin here; traces of clients are exported if the client samples them, failed and slow calls always"`
	Signals  []Signal          `yaml:"signals" enum:"traces|metrics|logs" doc:"kinds of data that the collector gets; empty means all"`
}

// Has reports whether the collector gets a signal.
func (o *OTLP) Has(s Signal) bool {
	return o.Endpoint != "" && (len(o.Signals) == 0 || slices.Contains(o.Signals, s))
}

// check refuses settings of a collector that there is not, and warns of headers in clear text.
func (o *OTLP) check(m *mapping) {
	if g, ok := m.given["endpoint"]; ok && o.Endpoint == "" && g.Value.Value != "" {
		return // the error about it is enough
	}
	switch {
	case o.Endpoint == "" && len(o.Headers) > 0:
		m.errorf("headers", "needs endpoint")
	case o.Endpoint == "" && o.TLS != (ClientTLS{}):
		m.errorf("tls", "needs endpoint")
	case o.Endpoint == "" && len(o.Signals) > 0:
		m.warnf("signals", "has no effect without endpoint")
	case o.TLS != (ClientTLS{}) && !strings.HasPrefix(strings.ToLower(o.Endpoint), "https:"):
		m.errorf("tls", "is for TLS, and endpoint has none; begin it with https in place of http")
	case len(o.Headers) > 0 && !isProtected(o.Endpoint):
		m.warnf("endpoint", "headers go over the network unprotected; write https")
	}
}
