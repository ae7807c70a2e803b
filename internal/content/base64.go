package content

import (
	"encoding/binary"
	"strings"

	"mcpgateway/internal/wire"
)

// base64Class classifies the bytes of Base64 text: 0 is a digit.
var base64Class = func() (t [256]byte) {
	for i := range t {
		t[i] = 'x'
	}
	for c := byte('A'); c <= 'Z'; c++ {
		t[c], t[c|0x20] = 0, 0
	}
	for c := byte('0'); c <= '9'; c++ {
		t[c] = 0
	}
	t['+'], t['/'], t['='], t['\\'] = 0, 0, '=', '\\'
	return t
}()

// IsBase64 reports whether a string is Base64 with padding (RFC 4648, section 4). It does
// not decode the string, unless that contains escapes other than \/.
func IsBase64(v wire.Value) bool {
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	ok, escaped := scanBase64(raw)
	if escaped {
		ok, escaped = scanBase64([]byte(v.Str()))
		return ok && !escaped
	}
	return ok
}

// scanBase64 checks the inside of a JSON string. It stops at an escape other than \/.
func scanBase64(raw []byte) (ok, escaped bool) {
	digits, pads := 0, 0
	for len(raw) >= 32 && areDigits(raw)&areDigits(raw[8:])&areDigits(raw[16:])&areDigits(raw[24:]) == each80 {
		digits += 32
		raw = raw[32:]
	}
	for i := 0; i < len(raw); i++ {
		switch base64Class[raw[i]] {
		case 0:
			if pads > 0 {
				return false, false
			}
			digits++
		case '=':
			pads++
		case '\\':
			if i+1 == len(raw) || raw[i+1] != '/' || pads > 0 {
				return false, true
			}
			i++ // some encoders escape every slash
			digits++
		default:
			return false, false
		}
	}
	return pads <= 2 && (digits+pads)%4 == 0, false
}

// Words with one value in each byte.
const (
	each01 = 0x0101010101010101
	each80 = each01 * 0x80
)

// areDigits returns the high bit of each of the first eight bytes that is a digit of
// Base64.
func areDigits(b []byte) uint64 {
	x := binary.LittleEndian.Uint64(b)
	low := x &^ each80 // so that no sum below carries into the next byte
	plus := ^((low ^ each01*'+') + each01*0x7f)
	return (inRange(low|each01*0x20, 'a', 'z') | inRange(low, '/', '9') | plus) &^ x & each80
}

// inRange returns the high bit of each byte of x, all of which are ASCII, that is between
// two characters.
func inRange(x, from, to uint64) uint64 {
	return (x + each01*(0x80-from)) &^ (x + each01*(0x7f-to))
}

// RepairBase64 returns the Base64 that a text stands for, and the MIME type of a data:
// URL. It accepts data: URLs, the URL-safe alphabet, white space, and missing padding.
func RepairBase64(text string) (data, mime string, ok bool) {
	text = strings.TrimSpace(text)
	if rest, is := cutPrefixFold(text, "data:"); is {
		head, body, found := strings.Cut(rest, ",")
		head, encoded := strings.CutSuffix(head, ";base64")
		if !found || !encoded {
			return "", "", false
		}
		mime, _, _ = strings.Cut(head, ";")
		text = body
	}
	out := make([]byte, 0, len(text)+2)
	for i := range len(text) {
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n', '=':
		case '-':
			out = append(out, '+')
		case '_':
			out = append(out, '/')
		default:
			if base64Class[c] != 0 {
				return "", "", false
			}
			out = append(out, c)
		}
	}
	switch len(out) % 4 {
	case 1:
		return "", "", false
	case 2:
		out = append(out, '=', '=')
	case 3:
		out = append(out, '=')
	}
	return string(out), mime, true
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// magicNumbers are the first bytes of well-known file formats, in Base64.
var magicNumbers = []struct{ begin, mime string }{
	{"iVBORw0KGgo", "image/png"},
	{"/9j/", "image/jpeg"},
	{"R0lGOD", "image/gif"},
	{"PHN2Zy", "image/svg+xml"},
	{"Qk", "image/bmp"},
	{"SUQz", "audio/mpeg"},
	{"//uQ", "audio/mpeg"},
	{"//sQ", "audio/mpeg"},
	{"T2dnUw", "audio/ogg"},
	{"ZkxhQw", "audio/flac"},
}

// SniffMIMEType returns the MIME type of Base64 data by its first bytes,
// application/octet-stream if they are unknown.
func SniffMIMEType(data string) string {
	for _, s := range magicNumbers {
		if strings.HasPrefix(data, s.begin) {
			return s.mime
		}
	}
	if strings.HasPrefix(data, "UklGR") && len(data) >= 16 { // RIFF; the type follows at byte 8
		switch data[12:16] {
		case "RUJQ":
			return "image/webp"
		case "QVZF":
			return "audio/wav"
		}
	}
	return "application/octet-stream"
}
