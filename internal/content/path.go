package content

import (
	"fmt"
	"strings"

	"mcpgateway/internal/plaintext"
)

// AppendPath appends a member name or an array index to a JSONPath (RFC 9535). Long names
// are clipped.
func AppendPath(b *strings.Builder, step string) {
	switch {
	case len(step) <= 9 && isIndex(step):
		b.WriteByte('[')
		b.WriteString(step)
		b.WriteByte(']')
	case len(step) <= 64 && isPlainName(step):
		b.WriteByte('.')
		b.WriteString(step)
	default:
		fmt.Fprintf(b, "[%q]", plaintext.Clip(step, 64))
	}
}

func isIndex(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isPlainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != ""
}
