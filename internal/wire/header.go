package wire

import (
	"encoding/base64"
	"strings"
)

const (
	headerOpen  = "=?base64?"
	headerClose = "?="
)

// EncodeHeader returns the value of an Mcp-Name or Mcp-Param-* header for s: s itself if that
// is safe, else its Base64 form (2026-07-28, basic/transports/streamable-http, "Value
// Encoding").
func EncodeHeader(s string) string {
	plain := s == strings.Trim(s, " \t") && !(strings.HasPrefix(s, headerOpen) && strings.HasSuffix(s, headerClose))
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] == '\t' || (s[i] >= 0x20 && s[i] <= 0x7e)
	}
	if plain {
		return s
	}
	return headerOpen + base64.StdEncoding.EncodeToString([]byte(s)) + headerClose
}

// DecodeHeader returns the decoded value of a header, and whether the header is well-formed.
func DecodeHeader(s string) (string, bool) {
	for i := range len(s) {
		if s[i] != '\t' && (s[i] < 0x20 || s[i] > 0x7e) {
			return "", false
		}
	}
	if !strings.HasPrefix(s, headerOpen) || !strings.HasSuffix(s, headerClose) || len(s) < len(headerOpen)+len(headerClose) {
		return s, true
	}
	b, err := base64.StdEncoding.DecodeString(s[len(headerOpen) : len(s)-len(headerClose)])
	return string(b), err == nil
}
