package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// MaxShown bounds the JSON that a page shows, in bytes.
const MaxShown = 256 << 10

// Indented returns JSON for a person, and whether it was cut.
func Indented(raw wire.Raw) (text string, cut bool) {
	if len(raw) > MaxShown {
		return string(raw[:MaxShown]), true
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw), false
	}
	return b.String(), false
}

// Plain returns a JSON value as a person writes it: a string without quotation marks.
func Plain(v wire.Value) string {
	if text, ok := v.Text(); ok {
		return text
	}
	return string(v.Raw())
}

// Same reports whether two values have the same text, but for spaces.
func Same(a, b wire.Raw) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return len(a) < MaxShown && len(b) < MaxShown && json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Editable returns JSON for a person to edit. Invisible characters, which a page shows in another form, are escapes.
func Editable(raw wire.Raw) string {
	text := string(raw)
	if b, cut := Indented(raw); !cut {
		text = b
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && !plaintext.IsInvisible(r) && r != '\u2028' && r != '\u2029':
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// Number returns a number for an attribute, "" for anything else.
func Number(v wire.Value) string {
	if v.Kind() != '0' || len(v.Raw()) > 40 {
		return ""
	}
	return string(v.Raw())
}
