package wire

import (
	"strings"
	"testing"
)

// The first five are the examples of 2026-07-28,
// basic/transports/streamable-http, "Value Encoding".
func TestEncodeHeader(t *testing.T) {
	for _, tc := range []struct{ name, value, header string }{
		{"plain ASCII", "us-west1", "us-west1"},
		{"not ASCII", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{"space around", " padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line break", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"sentinel", "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},

		{"empty", "", ""},
		{"space inside", "a b\tc", "a b\tc"},
		{"leading tab", "\ta", "=?base64?CWE=?="},
		{"trailing space", "a ", "=?base64?YSA=?="},
		{"header injection", "a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
		{"NUL", "\x00", "=?base64?AA==?="},
		{"DEL", "\x7f", "=?base64?fw==?="},
		{"all visible ASCII", "!~\"',;:/?=", "!~\"',;:/?="},
		{"sentinel's beginning", "=?base64?x", "=?base64?x"},
		{"sentinel's end", "x?=", "x?="},
		{"sentinel in capitals", "=?BASE64?eA==?=", "=?BASE64?eA==?="},
		{"sentinel that overlaps itself", "=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"empty sentinel", "=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := EncodeHeader(tc.value); got != tc.header {
				t.Errorf("EncodeHeader(%q) = %q, want %q", tc.value, got, tc.header)
			}
			if got, ok := DecodeHeader(tc.header); !ok || got != tc.value {
				t.Errorf("DecodeHeader(%q) = %q, %v; want %q", tc.header, got, ok, tc.value)
			}
		})
	}
}

func TestDecodeHeader(t *testing.T) {
	for _, tc := range []struct {
		name, header, want string
		ok                 bool
	}{
		{"plain that looks like Base64", "SGVsbG8=", "SGVsbG8=", true},
		{"encoded without need", "=?base64?YQ==?=", "a", true},
		{"encoded nothing", "=?base64??=", "", true},
		{"overlapping markers are plain", "=?base64?=", "=?base64?=", true},
		{"markers in another case are plain", "=?Base64?YQ==?=", "=?Base64?YQ==?=", true},
		{"no Base64", "=?base64?a b?=", "", false},
		{"no padding", "=?base64?YQ?=", "", false},
		{"URL alphabet", "=?base64?_-8=?=", "", false},
		{"raw UTF-8", "é", "", false},
		{"control character", "a\x01", "", false},
		{"line break in Base64", "=?base64?YQ\r\n==?=", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := DecodeHeader(tc.header); ok != tc.ok || (ok && got != tc.want) {
				t.Errorf("DecodeHeader(%q) = %q, %v; want %q, %v", tc.header, got, ok, tc.want, tc.ok)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	for _, s := range []string{"", "a", " a", "é", "=?base64?YQ==?=", "=?base64?=", "a\r\nb", "\xff", "a\tb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := EncodeHeader(s)
		for i := range len(h) {
			if h[i] != '\t' && (h[i] < 0x20 || h[i] > 0x7e) {
				t.Fatalf("EncodeHeader(%q) = %q, which no header may carry", s, h)
			}
		}
		if h != strings.TrimSpace(h) {
			t.Fatalf("EncodeHeader(%q) = %q, which a header parser would trim", s, h)
		}
		if got, ok := DecodeHeader(h); !ok || got != s {
			t.Fatalf("%q came back as %q, %v", s, got, ok)
		}
		DecodeHeader(s) // whatever a client sends
	})
}
