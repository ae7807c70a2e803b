package tracing

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc/credentials"
)

// httpTimeout bounds one request over HTTP.
const httpTimeout = 10 * time.Second

// overHTTP reports whether the collector is spoken to over HTTP, and not over gRPC.
func (o *Options) overHTTP() bool { return o.Protocol == "http" }

// newHTTPClient returns a client for a collector. It follows no redirection, because the headers
// may have a token that is for the collector alone.
func newHTTPClient(files *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = files
	return &http.Client{
		Transport: transport, Timeout: httpTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newTraceExporter(ctx context.Context, o *Options) (*otlptrace.Exporter, error) {
	if o.overHTTP() {
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint+"/v1/traces"), otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithHTTPClient(o.client))
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpointURL(o.Endpoint), otlptracegrpc.WithHeaders(o.Headers)}
	if o.TLS != nil {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
	}
	return otlptracegrpc.New(ctx, options...)
}

func newMetricExporter(ctx context.Context, o *Options) (metric.Exporter, error) {
	if o.overHTTP() {
		return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(o.Endpoint+"/v1/metrics"), otlpmetrichttp.WithHeaders(o.Headers), otlpmetrichttp.WithHTTPClient(o.client))
	}
	options := []otlpmetricgrpc.Option{otlpmetricgrpc.WithEndpointURL(o.Endpoint), otlpmetricgrpc.WithHeaders(o.Headers)}
	if o.TLS != nil {
		options = append(options, otlpmetricgrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
	}
	return otlpmetricgrpc.New(ctx, options...)
}

func newLogExporter(ctx context.Context, o *Options) (sdklog.Exporter, error) {
	if o.overHTTP() {
		return otlploghttp.New(ctx, otlploghttp.WithEndpointURL(o.Endpoint+"/v1/logs"), otlploghttp.WithHeaders(o.Headers), otlploghttp.WithHTTPClient(o.client))
	}
	options := []otlploggrpc.Option{otlploggrpc.WithEndpointURL(o.Endpoint), otlploggrpc.WithHeaders(o.Headers)}
	if o.TLS != nil {
		options = append(options, otlploggrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
	}
	return otlploggrpc.New(ctx, options...)
}
