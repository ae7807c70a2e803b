// Command collector is an OpenTelemetry collector for tests: the OTLP receiver of the OpenTelemetry
// Collector, which prints what it receives, one JSON object on each line. The first line says that
// it is ready.
//
// Usage: collector GRPC-ADDRESS HTTP-ADDRESS [CERT KEY CA], the last three for TLS that demands a
// certificate of CA.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

// line is what the collector prints for each span, metric and log record.
type line struct {
	Signal   string         `json:"signal"`
	Resource map[string]any `json:"resource"`
	Name     string         `json:"name"`
	Kind     string         `json:"kind,omitempty"`
	Status   string         `json:"status,omitempty"`
	Trace    string         `json:"trace,omitempty"`
	Span     string         `json:"span,omitempty"`
	Parent   string         `json:"parent,omitempty"`
	Links    []string       `json:"links,omitempty"` // trace-span
	Attrs    map[string]any `json:"attrs,omitempty"`
	// Unit and Temporality of a metric, whose kind is in Kind.
	Unit        string `json:"unit,omitempty"`
	Temporality string `json:"temporality,omitempty"`
	// Exemplars of a metric: the ids of their traces.
	Exemplars []string `json:"exemplars,omitempty"`
	// Auth are the headers Authorization of the request.
	Auth []string `json:"auth,omitempty"`
}

var (
	mu  sync.Mutex
	out = json.NewEncoder(os.Stdout)
)

func write(l line) {
	mu.Lock()
	defer mu.Unlock()
	_ = out.Encode(l)
}

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run receives OTLP on an address over gRPC and on another over HTTP, until a signal.
func run(grpc, http string, files []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	receiverOf := func(address string) map[string]any {
		of := map[string]any{"endpoint": address, "include_metadata": true}
		if len(files) == 3 {
			of["tls"] = map[string]any{"cert_file": files[0], "key_file": files[1], "client_ca_file": files[2]}
		}
		return of
	}
	err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"grpc": receiverOf(grpc), "http": receiverOf(http)}}).Unmarshal(cfg)
	if err != nil {
		return err
	}
	set := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	traces, err := consumer.NewTraces(printTraces)
	if err != nil {
		return err
	}
	metrics, err := consumer.NewMetrics(printMetrics)
	if err != nil {
		return err
	}
	logs, err := consumer.NewLogs(printLogs)
	if err != nil {
		return err
	}
	forTraces, err := factory.CreateTraces(ctx, set, cfg, traces)
	if err != nil {
		return err
	}
	if _, err = factory.CreateMetrics(ctx, set, cfg, metrics); err != nil { // the three are one receiver
		return err
	}
	if _, err = factory.CreateLogs(ctx, set, cfg, logs); err != nil {
		return err
	}
	if err := forTraces.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	write(line{Signal: "ready"})
	<-ctx.Done()
	return forTraces.Shutdown(context.Background())
}

func printTraces(ctx context.Context, td ptrace.Traces) error {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				l := line{
					Signal: "span", Resource: rs.Resource().Attributes().AsRaw(), Name: s.Name(), Kind: s.Kind().String(), Status: s.Status().Code().String(),
					Trace: s.TraceID().String(), Span: s.SpanID().String(), Parent: parent(s.ParentSpanID()), Attrs: s.Attributes().AsRaw(), Auth: authOf(ctx),
				}
				for _, link := range s.Links().All() {
					l.Links = append(l.Links, link.TraceID().String()+"-"+link.SpanID().String())
				}
				write(l)
			}
		}
	}
	return nil
}

// authOf returns the headers Authorization of the request that brought something.
func authOf(ctx context.Context) []string {
	return client.FromContext(ctx).Metadata.Get("authorization")
}

// exemplarsOf returns the ids of the traces of the exemplars of a histogram.
func exemplarsOf(m pmetric.Metric) (ids []string) {
	if m.Type() != pmetric.MetricTypeHistogram {
		return nil
	}
	for _, point := range m.Histogram().DataPoints().All() {
		for _, e := range point.Exemplars().All() {
			ids = append(ids, e.TraceID().String())
		}
	}
	return ids
}

// temporalityOf returns how the points of a metric add up, "" for those that do not.
func temporalityOf(m pmetric.Metric) string {
	switch m.Type() {
	case pmetric.MetricTypeSum:
		return m.Sum().AggregationTemporality().String()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().AggregationTemporality().String()
	default:
		return ""
	}
}

func parent(id pcommon.SpanID) string {
	if id.IsEmpty() {
		return ""
	}
	return id.String()
}

func printMetrics(ctx context.Context, md pmetric.Metrics) error {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				write(line{
					Signal: "metric", Resource: rm.Resource().Attributes().AsRaw(), Name: m.Name(), Kind: m.Type().String(), Unit: m.Unit(),
					Temporality: temporalityOf(m), Exemplars: exemplarsOf(m), Auth: authOf(ctx),
				})
			}
		}
	}
	return nil
}

func printLogs(ctx context.Context, ld plog.Logs) error {
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				write(line{
					Signal: "log", Resource: rl.Resource().Attributes().AsRaw(), Name: r.Body().AsString(), Status: r.SeverityText(),
					Trace: r.TraceID().String(), Attrs: r.Attributes().AsRaw(), Auth: authOf(ctx),
				})
			}
		}
	}
	return nil
}
