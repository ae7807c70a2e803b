package conform

import (
	"strings"
	"testing"

	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// bodies are results without violations.
func bodies() map[string]wire.Raw {
	text := strings.Repeat("lorem ipsum dolor ", 57) // 1 KiB
	return map[string]wire.Raw{
		"text":       wire.Raw(`{"content":[{"type":"text","text":"` + text + `"}],"isError":false}`),
		"escapes":    wire.Raw(`{"content":[{"type":"text","text":"` + strings.ReplaceAll(text, "i", `\u00ed`) + `"}],"isError":false}`),
		"structured": wire.Raw(`{"content":[{"type":"text","text":"` + text + `"}],"structuredContent":{"text":"` + text + `"}}`),
	}
}

// BenchmarkCheck measures the checks of results without violations.
func BenchmarkCheck(b *testing.B) {
	schema := toolschema.New(wire.Raw(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`))
	all := bodies()
	all["image of 64 KiB"] = wire.Raw(`{"content":[{"type":"image","data":"` + strings.Repeat("iVBORw0K", 8<<10) + `","mimeType":"image/png"}]}`)
	for name, body := range all {
		for mode, s := range map[string]ResultChecker{
			"off":             {Mode: Off, Method: wire.MethodToolsCall},
			"warn":            {Method: wire.MethodToolsCall, Revision: wire.Rev20251125},
			"repair":          {Mode: Repair, Method: wire.MethodToolsCall, Revision: wire.Rev20251125},
			"warn and schema": {Method: wire.MethodToolsCall, Revision: wire.Rev20251125, Output: schema},
		} {
			if s.Output != nil && name != "structured" {
				continue
			}
			b.Run(name+"/"+mode, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if v := s.Check(body); len(v.Violations) > 0 {
						b.Fatal(v.Violations)
					}
				}
			})
		}
	}
}
