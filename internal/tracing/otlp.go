package tracing

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
)

// overHTTP reports whether the collector is spoken to over HTTP, and not over gRPC.
func (o *Options) overHTTP() bool { return o.Protocol == "http" }

func newTraceExporter(ctx context.Context, o *Options) (*otlptrace.Exporter, error) {
	if o.overHTTP() {
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint+"/v1/traces"), otlptracehttp.WithHeaders(o.Headers))
	}
	return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.Endpoint), otlptracegrpc.WithHeaders(o.Headers))
}

func newMetricExporter(ctx context.Context, o *Options) (metric.Exporter, error) {
	if o.overHTTP() {
		return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(o.Endpoint+"/v1/metrics"), otlpmetrichttp.WithHeaders(o.Headers))
	}
	return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(o.Endpoint), otlpmetricgrpc.WithHeaders(o.Headers))
}

func newLogExporter(ctx context.Context, o *Options) (sdklog.Exporter, error) {
	if o.overHTTP() {
		return otlploghttp.New(ctx, otlploghttp.WithEndpointURL(o.Endpoint+"/v1/logs"), otlploghttp.WithHeaders(o.Headers))
	}
	return otlploggrpc.New(ctx, otlploggrpc.WithEndpointURL(o.Endpoint), otlploggrpc.WithHeaders(o.Headers))
}
