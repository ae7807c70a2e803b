package soak

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/config"
	"mcpgateway/internal/gateway"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// parkTTL is the time in which a client must return. It is short, because the test waits for clients that never return, and long enough for the
// others on a busy machine.
const parkTTL = 3 * time.Second

// startGateway runs a gateway in front of the upstreams. end shuts it down and waits for its end.
func (s *soak) startGateway(t *testing.T) (end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	store, keys := "", ""
	if s.store != nil {
		store, keys = fmt.Sprintf("store: {kind: redis, url: %q}\n", "redis://"+s.store.addr), `, keys: ["`+strings.Repeat("01", 32)+`"]`
	}
	fmt.Fprintf(&file, "%sbridge: {park_ttl: %s%s}\nlimits: {max_message: %d}\nupstreams:\n", store, parkTTL, keys, maxMessage)
	for _, u := range s.all() {
		era := map[string]string{legacy: "legacy", modern: "modern"}[u.revision]
		fmt.Fprintf(&file, "  %s:\n    era: %s\n    max_concurrent: 256\n    max_queue: 1024\n%s", u.name, era, u.config)
		if u.http != nil {
			fmt.Fprintf(&file, "    url: %s/mcp\n", u.http.url)
		} else {
			fmt.Fprintf(&file, "    command: %q\n    env: {%s: %q, %s: %q}\n", self, childEnv, u.revision, dirEnv, u.dir)
		}
	}
	cfg, err := config.Parse("gateway.yaml", []byte(file.String()), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen, cfg.Admin.Listen, cfg.StateDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	for i := range cfg.Upstreams {
		if u := &cfg.Upstreams[i]; u.Start == config.StartLazy {
			u.IdleStop = idleStop
		}
	}
	g, err := gateway.New(gateway.Options{Config: cfg, Version: "soak", Logger: s.logger()})
	if err != nil {
		t.Fatal(err)
	}
	s.urls, s.metrics = append(s.urls, "http://"+g.Addr()+"/mcp"), append(s.metrics, "http://"+g.AdminAddr()+"/metrics")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
	}
}

// logger returns a logger that reports messages that the gateway should never log.
func (s *soak) logger() *zap.Logger {
	encoder := zapcore.NewJSONEncoder(zap.NewDevelopmentEncoderConfig())
	sink := zapcore.AddSync(writerFunc(func(line []byte) {
		text := strings.TrimSpace(string(line))
		if strings.Contains(text, `"L":"ERROR"`) || strings.Contains(text, "WRONG") {
			s.violation("the gateway logged: %s", text)
		}
	}))
	return zap.New(zapcore.NewCore(encoder, sink, zap.WarnLevel))
}

type writerFunc func([]byte)

func (f writerFunc) Write(line []byte) (int, error) { f(line); return len(line), nil }

// gauges returns the values of a metric by the rest of its name and its labels, the sums over all gateways.
func (s *soak) gauges(names ...string) (map[string]float64, error) {
	out := make(map[string]float64)
	for _, url := range s.metrics {
		if err := s.addGauges(out, url, names); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *soak) addGauges(out map[string]float64, url string, names []string) error {
	resp, err := s.http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/metrics: %s", resp.Status)
	}
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		bare, _, _ := strings.Cut(name, "{")
		if slices.Contains(names, strings.TrimPrefix(bare, "mcp_gateway_")) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return err
			}
			out[name] += v
		}
	}
	return nil
}

// wantNothingLeft waits until the gateway holds no state of clients.
func (s *soak) wantNothingLeft(t *testing.T) {
	t.Helper()
	names := []string{"parked_calls", "inflight_requests", "sessions", "streams"}
	var left map[string]float64
	if !within(func() bool {
		var err error
		if left, err = s.gauges(names...); err != nil {
			t.Fatal(err)
		}
		if len(left) < len(names) {
			t.Fatalf("want the metrics %q, got only %v", names, left)
		}
		maps.DeleteFunc(left, func(_ string, v float64) bool { return v == 0 })
		return len(left) == 0
	}) {
		t.Errorf("left at the end: %v", left)
	}
}

// waitTimeout bounds waits for conditions that hold at once unless something is broken.
const waitTimeout = time.Minute

func within(holds func() bool) bool {
	for deadline := time.Now().Add(waitTimeout); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
