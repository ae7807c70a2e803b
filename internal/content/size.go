package content

import (
	"bytes"
	"unicode/utf8"

	"mcpgateway/internal/wire"
)

// TextSize returns the size of a string in bytes of UTF-8, without decoding it. An
// escaped lone surrogate counts as U+FFFD.
func TextSize(v wire.Value) int {
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	size := 0
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return size + len(raw)
		}
		u := ReadChar(raw, i)
		n := utf8.RuneLen(u.Rune)
		if n < 0 {
			n = utf8.RuneLen(utf8.RuneError)
		}
		size += i + n
		raw = raw[u.End:]
	}
}

// Base64Size returns the number of bytes that a Base64 string encodes, without decoding
// it, and false for any other value. Like most decoders it accepts both alphabets, white
// space and missing padding.
func Base64Size(v wire.Value) (int, bool) {
	if v.Kind() != '"' {
		return 0, false
	}
	raw := v.Raw()
	digits, pads := 0, 0
	for i := 1; i < len(raw)-1; i++ {
		for i+8 < len(raw) && pads == 0 && areDigits(raw[i:]) == each80 {
			digits += 8
			i += 8
		}
		if i == len(raw)-1 {
			break
		}
		c := raw[i]
		if c == '\\' {
			i++
			if c = raw[i]; c == 'n' || c == 'r' || c == 't' {
				continue
			}
			if c != '/' {
				return 0, false
			}
		}
		switch {
		case c == '=':
			pads++
		case c == ' ':
		case pads == 0 && (base64Class[c] == 0 || c == '-' || c == '_'):
			digits++
		default:
			return 0, false
		}
	}
	return digits * 3 / 4, digits%4 != 1 && pads <= 2
}
