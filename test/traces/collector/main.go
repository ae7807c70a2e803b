// Command collector is an OpenTelemetry collector for tests: the OTLP receiver of the OpenTelemetry
// Collector, which prints what it receives, one JSON object on each line. Its first line has the
// addresses of its receivers.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

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
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run receives OTLP on an address over gRPC and on another over HTTP, until a signal.
func run(grpc, http string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": grpc}, "http": map[string]any{"endpoint": http},
	}}).Unmarshal(cfg)
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

func printTraces(_ context.Context, td ptrace.Traces) error {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				l := line{
					Signal: "span", Resource: rs.Resource().Attributes().AsRaw(), Name: s.Name(), Kind: s.Kind().String(), Status: s.Status().Code().String(),
					Trace: s.TraceID().String(), Span: s.SpanID().String(), Parent: parent(s.ParentSpanID()), Attrs: s.Attributes().AsRaw(),
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

func parent(id pcommon.SpanID) string {
	if id.IsEmpty() {
		return ""
	}
	return id.String()
}

func printMetrics(_ context.Context, md pmetric.Metrics) error {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				write(line{Signal: "metric", Resource: rm.Resource().Attributes().AsRaw(), Name: m.Name()})
			}
		}
	}
	return nil
}

func printLogs(_ context.Context, ld plog.Logs) error {
	for _, rl := range ld.ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				write(line{
					Signal: "log", Resource: rl.Resource().Attributes().AsRaw(), Name: r.Body().AsString(), Status: r.SeverityText(),
					Trace: r.TraceID().String(), Attrs: r.Attributes().AsRaw(),
				})
			}
		}
	}
	return nil
}
