package results

import (
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// A result of about 10 MiB is shortened: JSON with escapes at every name, and lines of a log.
func BenchmarkShorten(b *testing.B) {
	for name, text := range map[string]string{"json": items(220_000), "lines": strings.Repeat("some words in a line of a log\n", 350_000)} {
		in := wire.ValueOf(wire.Raw(textResult(text)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Shorten(in, 32<<10, false).Result(testLink)
			}
		})
	}
}
