package downlevel

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// bodies are results in which nothing is replaced for any client.
func bodies() map[string]wire.Raw {
	text := strings.Repeat("lorem ipsum dolor ", 57) // 1 KiB
	return map[string]wire.Raw{
		"text":       wire.Raw(`{"content":[{"type":"text","text":"` + text + `"}],"isError":false}`),
		"escapes":    wire.Raw(`{"content":[{"type":"text","text":"` + strings.ReplaceAll(text, "i", `\u00ed`) + `"}],"isError":false}`),
		"structured": wire.Raw(`{"content":[{"type":"text","text":"` + text + `"}],"structuredContent":{"text":"` + text + `"}}`),
	}
}

func BenchmarkResult(b *testing.B) {
	for name, body := range bodies() {
		for _, rev := range []wire.Revision{wire.Rev20251125, wire.Rev20241105} {
			b.Run(name+"/"+string(rev), func(b *testing.B) {
				for b.Loop() {
					Result(rev, wire.MethodToolsCall, wire.ValueOf(body))
				}
			})
		}
	}
}
