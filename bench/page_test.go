package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageAgrees checks that docs/performance.md and its plots are those of the
// committed figures.
func TestPageAgrees(t *testing.T) {
	docs := filepath.Join("..", "docs")
	r, err := readReport(filepath.Join(docs, pageFolder, dataName))
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.files(docs)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("docs/%s differs from docs/performance/bench.json: run \"go run ./bench -render docs/performance/bench.json\"", name)
		}
	}
	plots, err := filepath.Glob(filepath.Join(docs, pageFolder, "*.svg"))
	if err != nil || len(plots) != len(files)-1 {
		t.Errorf("plots %v, %v; want %d", plots, err, len(files)-1)
	}
}

func TestRender(t *testing.T) {
	docs := t.TempDir()
	page := "# Title\n\n" + beginMark + "\nold\n" + endMark + "\n\nThe end.\n"
	if err := os.WriteFile(filepath.Join(docs, pageName), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	w := workload{
		Name: "json-1k", About: "About it.", Paths: []path{{Name: viaReverse}, {Name: viaGateway}},
		Ratios: []ratio{{Metric: perSecond, Of: viaGateway, To: viaReverse, AtLeast: 2, Requirement: 1}},
	}
	o := rated(w, map[string][]float64{viaReverse: {100}, viaGateway: {150}})
	r := &report{Turns: 1, CPUs: 2, Versions: map[string]string{"go": "go1.26"}, Workloads: []*outcome{o}, Profiles: []profiled{{
		Name: "gateway", Flame: &frame{Name: "all", Percent: 100, Calls: []*frame{{Name: "router.Call", Percent: 40, Kind: kindGateway}}},
		Sites: []site{{Function: "f", For: "g", Objects: 1, Bytes: 16}},
	}}}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time replaces what the first wrote
		if err := render(file, docs); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(docs, pageName))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Title\n", "| 1 | json-1k | gateway / reverse | ≥ 2 | 1.50 | 1.50 to 1.50 | **not met** |", "| gateway | 150 |",
		"| `f` | `g` | 1.00 | 16 |", "\nThe end.\n",
	} {
		if strings.Count(string(got), want) != 1 {
			t.Errorf("the page lacks %q, or has it twice:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "old") {
		t.Error("the old figures are still there")
	}
	for _, name := range []string{"ratios.svg", "latency.svg", "flame-gateway.svg", dataName} {
		if _, err := os.Stat(filepath.Join(docs, pageFolder, name)); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(docs, pageName), []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := render(file, docs); err == nil || !strings.Contains(err.Error(), "has no lines") {
		t.Errorf("a page without marks: %v", err)
	}
}
