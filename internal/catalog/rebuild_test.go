package catalog

import (
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
)

// detailed returns tools of one upstream as real servers describe them: about two
// kilobytes and twelve properties each, and no two are equal.
func detailed(n int) []string {
	items := make([]string, n)
	for i := range items {
		var properties []string
		for p := range 12 {
			properties = append(properties, fmt.Sprintf(`"property_%d":{"type":"string","description":"what property %d of tool %d is for, and what it may be","minLength":1}`, p, p, i))
		}
		items[i] = fmt.Sprintf(`{"name":"tool_%d","title":"Tool %d","description":%q,"inputSchema":{"type":"object","properties":{%s},"required":["property_0","property_1"]},"annotations":{"readOnlyHint":true}}`,
			i, i, strings.Repeat("what the tool does, at some length; ", 16), strings.Join(properties, ","))
	}
	return items
}

// BenchmarkRebuild measures a new table for an upstream with 1000 tools: if none has
// changed, if one has changed, and if all are new.
func BenchmarkRebuild(b *testing.B) {
	open := policy.MustNew(policy.Options{Default: policy.Allow})
	for _, sanitize := range []sanitize.Classes{0, sanitize.ANSI | sanitize.Control | sanitize.Invisible} {
		rules := Rules{Sanitize: sanitize}
		same := source(b, "u", "u", detailed(1000)...)
		same.Rules = rules
		name := fmt.Sprintf("sanitize=%t/", sanitize != 0)
		b.Run(name+"unchanged", func(b *testing.B) {
			var schemas conform.Cache
			Build(Options{Policy: open, Schemas: &schemas}, []Source{same})
			b.ReportAllocs()
			for b.Loop() {
				Build(Options{Policy: open, Schemas: &schemas}, []Source{same})
			}
		})
		b.Run(name+"gathered again", func(b *testing.B) {
			var schemas conform.Cache
			Build(Options{Policy: open, Schemas: &schemas}, []Source{same})
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				again := source(b, "u", "u", detailed(1000)...) // equal bytes at another address
				again.Rules = rules
				b.StartTimer()
				Build(Options{Policy: open, Schemas: &schemas}, []Source{again})
			}
		})
		b.Run(name+"new", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Build(Options{Policy: open, Schemas: &conform.Cache{}}, []Source{same})
			}
		})
	}
}
