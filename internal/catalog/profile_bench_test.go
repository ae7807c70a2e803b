package catalog

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
)

// thousandTools are 1,000 tools of 20 upstreams, with 1.5 KB each.
func thousandTools(tb testing.TB) ([]Source, []profile.Upstream) {
	var sources []Source
	var configured []profile.Upstream
	for u := range 20 {
		name := fmt.Sprint("up", u)
		var items []string
		for i := range 50 {
			items = append(items, fmt.Sprintf(`{"name":"tool_%d_%d","description":"%s","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"%s"}}}}`,
				u, i, strings.Repeat("Some words. ", 60), strings.Repeat("More words. ", 55)))
		}
		sources = append(sources, source(tb, name, name, items...))
		configured = append(configured, profile.Upstream{Name: name})
	}
	return sources, configured
}

// BenchmarkForProfile makes the tables of 20 profiles over 1,000 tools with their views, and reports
// the memory that stays for one of them.
func BenchmarkForProfile(b *testing.B) {
	sources, configured := thousandTools(b)
	all := Build(Options{Policy: allowAll}, sources)
	for _, bb := range []struct {
		name string
		o    profile.Options
	}{
		{"everything", profile.Options{}},
		{"selected", profile.Options{Select: policy.Selection{Tools: policy.Globs{Allow: []string{"*"}, Deny: []string{"*_7"}}}}},
		{"short", profile.Options{ShortNames: true}},
		{"trimmed", profile.Options{Trim: profile.Trim{Description: 200, SchemaDescriptions: 100, Examples: true}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			bb.o.Configured = configured
			p := profileOf(b, bb.o)
			var before, after runtime.MemStats
			var kept []*Table
			for b.Loop() {
				kept = nil
				runtime.GC()
				runtime.ReadMemStats(&before)
				for range 20 {
					t := all.ForProfile(p)
					t.View(call.Anonymous, nil)
					kept = append(kept, t)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/20/1024, "KiB/profile")
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/20, "ms/profile")
			runtime.KeepAlive(kept)
		})
	}
}
