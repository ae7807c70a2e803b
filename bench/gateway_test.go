package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"gopkg.in/yaml.v3"
)

// runFakeGateway is the behavior of the test binary when it is started as a gateway.
// It takes the same arguments and configuration. It reports itself ready after
// two requests to its readiness address, prints its URLs, and serves calls with
// the prefix removed from the tool's name. With the log level "error" it fails.
func runFakeGateway(args []string) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	file := f.String("c", "", "")
	listen := f.String("listen", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	data, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var config struct {
		StateDir  string `yaml:"state_dir"`
		Admin     struct{ Listen string }
		Upstreams map[string]struct {
			URL, Transport, Era string
			Required            bool
		}
		Telemetry struct{ Log struct{ Level string } }
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		return err
	}
	if config.Telemetry.Log.Level == "error" {
		return fmt.Errorf("the fake gateway fails as configured")
	}
	target, err := url.Parse(config.Upstreams[gatewayUpstream].URL)
	if err != nil {
		return err
	}
	var asked atomic.Int32
	admin, err := net.Listen("tcp", config.Admin.Listen)
	if err != nil {
		return err
	}
	go http.Serve(admin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	proxy, _ := newReverseProxy(target)
	calls, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("Serving.\n\n  MCP endpoint   http://%s/mcp\n  admin          http://%s   (/readyz)\n", calls.Addr(), admin.Addr())
	return http.Serve(calls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Load() < 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(r.Body)
		body = bytes.Replace(body, []byte(strconv.Quote(gatewayTool)), []byte(strconv.Quote(toolName)), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
}

func TestCompareWithAGateway(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-gateway", self, "-rounds", "1", "-duration", "1s", "-warmup", "0s", "-clients", "2", "-only", "reverse,gateway"}

	for _, era := range []string{eraLegacy, eraModern} {
		var report, stderr strings.Builder
		if code := run(t.Context(), append(args, "-era", era), nil, &report, &stderr); code != 0 {
			t.Errorf("%s: exit status %d: %s", era, code, stderr.String())
		}
		if !strings.Contains(report.String(), pathGateway) {
			t.Errorf("%s: the report lacks the gateway:\n%s", era, report.String())
		}
	}

	t.Run("requirement not met", func(t *testing.T) {
		var stderr strings.Builder
		code := run(t.Context(), append(args, "-require-reverse", "1000"), nil, io.Discard, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), "1000.00 × is required") {
			t.Errorf("exit status %d: %s", code, stderr.String())
		}
	})
	t.Run("failing gateway", func(t *testing.T) {
		var stderr strings.Builder
		code := run(t.Context(), append(args, "-gateway-log-level", "error"), nil, io.Discard, &stderr)
		for _, want := range []string{"the gateway ended before it was ready", "the fake gateway fails as configured"} {
			if code != 1 || !strings.Contains(stderr.String(), want) {
				t.Errorf("exit status %d, %q; want 1 and %q", code, stderr.String(), want)
			}
		}
	})
	t.Run("no temporary folders remain", func(t *testing.T) {
		left, err := filepath.Glob(filepath.Join(os.TempDir(), "mcpgateway-bench-*"))
		if err != nil || len(left) != 0 {
			t.Errorf("temporary folders %v, %v", left, err)
		}
	})
}
