package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpgateway/internal/console"
	"mcpgateway/internal/inspect"
)

// corpus is the folder of the configurations of package config.
const corpus = "../../internal/config/testdata"

// TestCheckBadCorpus compares the errors that check reports for every bad configuration
// with the expected ones.
func TestCheckBadCorpus(t *testing.T) {
	env := map[string]string{
		"HOME": "/home/u", "PORT": "1234", "DEPTH": "32", "YES": "true", "EMPTY": "", "NESTED": "${TOKEN}",
		"TOKEN": "s3cret-t0ken", "ADMIN_TOKEN": "s3cret-admin", "PERPLEXITY_KEY": "s3cret-input", "SECRET": "s3cret-text",
	}
	before := lookupEnv
	lookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	t.Cleanup(func() { lookupEnv = before })

	wants, err := filepath.Glob(filepath.Join(corpus, "bad", "*.err"))
	if err != nil || len(wants) < 60 {
		t.Fatalf("%d expectations, %v", len(wants), err)
	}
	for _, file := range wants {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".err")
		t.Run(name, func(t *testing.T) {
			t.Chdir(filepath.Dir(file))
			var stdout, stderr bytes.Buffer
			status := run([]string{"check", "--offline", "-c", name}, strings.NewReader(""), &stdout, &stderr)
			if status != exitFailed || stdout.Len() > 0 {
				t.Errorf("status %d, standard output %q", status, stdout.String())
			}
			if diff := cmp.Diff(string(want), stderr.String()); diff != "" {
				t.Errorf("not as expected (-want +got):\n%s", diff)
			}
		})
	}
}

// On a narrow terminal the table has whole headings: the revision says the era, and the time is worth least.
func TestCheckOnANarrowTerminal(t *testing.T) {
	all := "UPSTREAM STATE ERA REVISION TOOLS PROMPTS RESOURCES TEMPLATES VIOLATIONS TIME"
	for _, tc := range []struct {
		name, state string
		columns     int
		heads       string
	}{
		{"files", "ready", 0, all},
		{"files", "ready", 94, all},
		{"files", "ready", 80, "UPSTREAM STATE REVISION TOOLS PROMPTS RESOURCES TEMPLATES VIOLATIONS"},
		{"everything", "ready", 80, "UPSTREAM STATE REVISION TOOLS PROMPTS RESOURCES TEMPLATES VIOLATIONS"},
		{"everything", "unchecked", 80, "UPSTREAM STATE TOOLS PROMPTS RESOURCES TEMPLATES VIOLATIONS"},
		{"knowledge-graph-memory", "unchecked", 80, "UPSTREAM STATE TOOLS PROMPTS RESOURCES VIOLATIONS"},
	} {
		r := &inspect.Report{Upstreams: []inspect.UpstreamReport{{
			Name: tc.name, State: tc.state, Era: "legacy", Revision: "2025-11-25", Items: map[string]int{"tools": 16}, Seconds: 29.2,
		}}}
		var out bytes.Buffer
		if err := writeReport(r, &out, console.Style{}, tc.columns); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		if got := strings.Join(strings.Fields(first), " "); got != tc.heads || tc.columns > 0 && len(first) > tc.columns {
			t.Errorf("%s, %d columns: %s", tc.name, tc.columns, first)
		}
	}
}

// Items that the lists of an upstream hide are not counted as shown. The table says so only where some are hidden, and fits.
func TestCheckOfHiddenItems(t *testing.T) {
	items := map[string]int{"tools": 160, "prompts": 4, "resources": 7, "templates": 2}
	r := &inspect.Report{Upstreams: []inspect.UpstreamReport{{
		Name: "everything", State: "ready", Era: "legacy", Revision: "2025-11-25", Items: items, HiddenItems: map[string]int{"tools": 158, "resources": 7}, Seconds: 29.2,
	}}}
	for columns, want := range map[int]string{
		0: "UPSTREAM    STATE  ERA     REVISION    TOOLS     PROMPTS  RESOURCES  TEMPLATES  VIOLATIONS  TIME\n" +
			"everything  ready  legacy  2025-11-25  2 of 160  4        0 of 7     2          0           29.2s\n",
		80: "UPSTREAM    STATE  TOOLS     PROMPTS  RESOURCES  TEMPLATES  VIOLATIONS\neverything  ready  2 of 160  4        0 of 7     2          0\n",
	} {
		var out bytes.Buffer
		if err := writeReport(r, &out, console.Style{}, columns); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%d columns: got\n%s\nwant\n%s", columns, got, want)
		}
	}
}

// Items that are skipped for the same reason share a row. A single one has its name, and nothing is "more" without others.
func TestSkippedProbes(t *testing.T) {
	skipped := func(kind, item string) inspect.ProbeReport {
		return inspect.ProbeReport{Upstream: "u", Kind: kind, Item: item, Outcome: inspect.ProbeSkipped.String(), Why: "not safe"}
	}
	for _, tc := range []struct {
		probes []inspect.ProbeReport
		want   string
	}{
		{[]inspect.ProbeReport{skipped("tool", "one")}, "one"},
		{[]inspect.ProbeReport{skipped("tool", "one"), skipped("tool", "two")}, "2 tools"},
		{[]inspect.ProbeReport{{Upstream: "u", Kind: "tool", Item: "zero", Outcome: inspect.ProbeOK.String()}, skipped("tool", "one"), skipped("tool", "two")}, "2 more"},
	} {
		var out bytes.Buffer
		if err := writeProbes(&inspect.Report{Probes: tc.probes}, &out, console.Style{}, 0); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, "  "+tc.want+"  ") {
			t.Errorf("%s, want %s", last, tc.want)
		}
	}
}
