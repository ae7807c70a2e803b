package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Clip returns at most maxBytes of a text from outside, with an ellipsis if something was
// cut off. A clipped text is valid UTF-8.
func Clip(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxBytes], "") + "…"
}

// Bounds of ClipList.
const (
	maxListed       = 10
	maxListedLength = 256 // bytes
)

// ClipList returns at most ten texts from outside, each clipped to 256 bytes, and an ellipsis as the last one if others
// were left out.
func ClipList(list []string) []string {
	var out []string
	for i, s := range list {
		if i == maxListed {
			return append(out, "…")
		}
		out = append(out, Clip(s, maxListedLength))
	}
	return out
}

// Truncate returns at most maxBytes of a text, without half a character at its end.
func Truncate(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	n := max(0, maxBytes)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
