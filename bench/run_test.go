package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWorkloads runs every workload once, in small, with the gateway that is
// built from the sources.
func TestWorkloads(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	noteSources(t)
	outcomeFile := filepath.Join(t.TempDir(), "bench.json")
	var report, progress strings.Builder
	code := run(t.Context(), []string{"-scale", "500", "-turns", "1", "-duration", "60ms", "-warmup", "0s", "-json", outcomeFile}, nil, &report, &progress)
	if code != 0 {
		t.Fatalf("exit status %d:\n%s%s", code, report.String(), progress.String())
	}
	r, err := readReport(outcomeFile)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(workloads(500), func(w workload) bool { return w.Name == profileWorkload })
	if len(r.Workloads) != len(all) {
		t.Fatalf("%d workloads, want %d", len(r.Workloads), len(all))
	}
	for i, o := range r.Workloads {
		if len(o.Paths) != len(all[i].Paths) || len(o.Ratios) != len(all[i].Ratios) {
			t.Errorf("%s: %d paths and %d ratios, want %d and %d", o.Name, len(o.Paths), len(o.Ratios), len(all[i].Paths), len(all[i].Ratios))
		}
		for _, x := range o.Ratios {
			if x.Median <= 0 && x.Metric != ofSize && x.Metric != each { // a small gateway may grow by nothing
				t.Errorf("%s: %s is %v", o.Name, x.Name, x.Median)
			}
		}
	}
	if len(r.Profiles) != 2 {
		t.Fatalf("%d profiles, want 2", len(r.Profiles))
	}
	for _, p := range r.Profiles {
		if p.Calls == 0 || len(p.Flame.Calls) == 0 || len(p.Sites) == 0 {
			t.Errorf("profile %s: %d calls, %d frames, %d sites", p.Name, p.Calls, len(p.Flame.Calls), len(p.Sites))
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "mcpgateway-bench-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("temporary folders %v, %v", left, err)
	}
}

// noteSources makes the result of the test depend on the sources of the gateway:
// the go command caches results by the files that the test reads.
func noteSources(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"../go.mod", "../cmd/*/*.go", "../internal/*/*.go", "../internal/*/*/*.go", "../internal/*/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// buildOnce returns a gateway for tests that need its path.
func buildOnce(t *testing.T) string {
	t.Helper()
	noteSources(t)
	binary, err := buildGateway(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func TestCompareBinaries(t *testing.T) {
	binary := buildOnce(t)
	small := []string{"-gateway", binary, "-turns", "1", "-duration", "60ms", "-warmup", "0s", "-nginx=false", "-workload", "json-100b"}

	t.Run("another binary", func(t *testing.T) {
		var report, stderr strings.Builder
		if code := run(t.Context(), append(small, "-compare", binary), nil, &report, &stderr); code != 0 {
			t.Fatalf("exit status %d: %s", code, stderr.String())
		}
		for _, want := range []string{"gateway before", "gateway / gateway before, cpu"} {
			if !strings.Contains(report.String(), want) {
				t.Errorf("the report lacks %q:\n%s", want, report.String())
			}
		}
		if strings.Contains(report.String(), viaNginx) {
			t.Errorf("nginx ran:\n%s", report.String())
		}
	})
	t.Run("one path", func(t *testing.T) {
		var report, stderr strings.Builder
		if code := run(t.Context(), append(small, "-only", viaReverse), nil, &report, &stderr); code != 0 {
			t.Fatalf("exit status %d: %s", code, stderr.String())
		}
		if strings.Contains(report.String(), viaGateway) || !strings.Contains(report.String(), viaReverse) {
			t.Errorf("paths other than reverse ran:\n%s", report.String())
		}
	})
	t.Run("a gateway that fails", func(t *testing.T) {
		broken := filepath.Join(t.TempDir(), "gateway")
		if err := os.WriteFile(broken, []byte("#!/bin/sh\necho broken as told\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		var report, stderr strings.Builder
		code := run(t.Context(), append(small, "-gateway", broken), nil, &report, &stderr)
		for _, want := range []string{"the gateway ended before it was ready", "broken as told"} {
			if code != 1 || !strings.Contains(stderr.String(), want) || !strings.Contains(report.String(), "FAILED") {
				t.Errorf("exit status %d, %q; want 1 and %q", code, stderr.String(), want)
			}
		}
	})
	t.Run("requirements", func(t *testing.T) {
		o, err := parseOptions(small, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		o.Strict = true
		o.Workloads[0].Ratios = []ratio{{Metric: perSecond, Of: viaGateway, To: viaReverse, AtLeast: 1000, Requirement: 1}}
		if err := bench(t.Context(), o, io.Discard, io.Discard); err == nil || err.Error() != "requirements are not met" {
			t.Errorf("got %v, want the requirement", err)
		}
	})
}

func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-workload", "json-1k,warp"}, `bench: -workload: "warp" is none of all, json-1k, `},
		{[]string{"-workload", "json-100b", "-only", "gateway,warp"}, "bench: -only: \"warp\" is none of gateway, nginx, reverse\n"},
		{[]string{"-turns", "0"}, "bench: -turns must be between 1 and 1000\n"},
		{[]string{"-duration", "1h"}, "bench: -duration and -warmup must be at most a minute, -duration more than 0\n"},
		{[]string{"-scale", "0"}, "bench: -scale must be between 1 and 1000\n"},
		{[]string{"now"}, "bench: unexpected argument \"now\"\n"},
	}
	for _, tt := range tests {
		var stderr strings.Builder
		if code := run(t.Context(), tt.args, nil, io.Discard, &stderr); code != 2 || !strings.HasPrefix(stderr.String(), tt.want) {
			t.Errorf("%v: exit status %d, %q; want 2, %q", tt.args, code, stderr.String(), tt.want)
		}
	}
}
