package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/call"
	"mcpgateway/internal/polltest"
)

// reports collects what an exporter reports.
type reports struct {
	mu       sync.Mutex
	errors   []string
	recovery []int
}

// all returns the errors, and for each recovery how many exports had failed.
func (r *reports) all() (errors []string, recoveries []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errors), slices.Clone(r.recovery)
}

// exporterTo returns an exporter of one signal over HTTP that sends batches at once.
func exporterTo(t *testing.T, url string, r *reports, traces, logs bool) *Exporter {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "1")
	e, err := New(Options{
		Endpoint: url, Protocol: "http", Headers: map[string]string{"X-Key": "secret"}, Traces: traces, Logs: logs, Sample: 1,
		Slow: func() time.Duration { return 0 }, Gatherer: prometheus.NewRegistry(),
		OnError: func(signal string, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errors = append(r.errors, signal+": "+err.Error())
		},
		OnRecovery: func(_ string, failed int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.recovery = append(r.recovery, failed)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) }) // the context of the test has ended
	return e
}

// A collector that fails is reported once, in a bounded text whatever it answers, and once when it
// works again.
func TestOutagesAreReportedOnce(t *testing.T) {
	for _, signal := range []string{"traces", "logs"} {
		t.Run(signal, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) <= 3 {
					http.Error(w, strings.Repeat("garbage\n", 1<<16), http.StatusBadRequest)
				}
			}))
			defer server.Close()
			r := new(reports)
			e := exporterTo(t, server.URL, r, signal == "traces", signal == "logs")
			log := zap.New(e.WrapCore(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(io.Discard), zap.InfoLevel)))
			polltest.Until(t, "the recovery", func() bool {
				if log.Info("line"); e.tracer != nil {
					begin(e.tracer, newCall(`{}`, nil)).End(start, call.SpanEnd{})
				}
				_, recovered := r.all()
				return len(recovered) > 0
			})
			failed, recovered := r.all()
			if !slices.Equal(recovered, []int{3}) || len(failed) != 1 || !strings.HasPrefix(failed[0], signal+": ") {
				t.Fatalf("reported %v, %v", failed, recovered)
			}
			if n := len(failed[0]); n > maxReason+20 {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

// A redirection is an error: the headers are for the collector alone.
func TestRedirectionsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	r := new(reports)
	e := exporterTo(t, server.URL, r, true, false)
	begin(e.tracer, newCall(`{}`, nil)).End(start, call.SpanEnd{})
	polltest.Until(t, "an error", func() bool { failed, _ := r.all(); return len(failed) > 0 })
	if failed, _ := r.all(); elsewhere.Load() > 0 || !strings.Contains(failed[0], "307") {
		t.Errorf("%d requests elsewhere, %v", elsewhere.Load(), failed)
	}
}

// A collector that takes requests and never answers costs bounded memory.
func TestASilentCollectorCostsBoundedMemory(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	e := exporterTo(t, server.URL, new(reports), true, false)
	defer close(release)
	calls := func(n int) uint64 {
		for range n {
			s := begin(e.tracer, newCall(`{}`, nil))
			s.Start(call.StageUpstream, start, call.SpanStart{Method: "tools/call", Item: "read"}).End(start, call.SpanEnd{})
			s.End(start, call.SpanEnd{})
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	full := calls(5000) // more than the queue holds
	if after := calls(50_000); after > full+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes", full, after)
	}
}
