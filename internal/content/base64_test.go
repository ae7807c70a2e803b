package content

import (
	"encoding/base64"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

func TestBase64(t *testing.T) {
	tests := []struct {
		in   string // the inside of a JSON string
		is   bool
		want string // its only possible meaning, "-" for none
	}{
		{``, true, ``},
		{`YQ==`, true, `YQ==`},
		{`YWI=`, true, `YWI=`},
		{`YWJj`, true, `YWJj`},
		{`YWJjZGVmZ2hpamtsbW5vcA==`, true, `YWJjZGVmZ2hpamtsbW5vcA==`},
		{`//8\/`, true, `//8/`},
		{`\u0059Q==`, true, `YQ==`},
		{`YQ`, false, `YQ==`},
		{`YQ=`, false, `YQ==`},
		{`YQ===`, false, `YQ==`},
		{`Y=Q=`, false, `YQ==`},
		{`Y`, false, `-`},
		{`-_8=`, false, `+/8=`},
		{`YWJj\nZGVm\n`, false, `YWJjZGVm`},
		{`data:text/plain;base64,YQ==`, false, `YQ==`},
		{`DATA:;base64,YQ`, false, `YQ==`},
		{`data:text/plain,YQ==`, false, `-`},
		{`YQ\u0000=`, false, `-`},
		{`\u0000\u0001`, false, `-`},
		{`Hello!`, false, `-`},
	}
	for _, tt := range tests {
		v := wire.ValueOf(wire.Raw(`"` + tt.in + `"`))
		if got := IsBase64(v); got != tt.is {
			t.Errorf("%q: %v, want %v", tt.in, got, tt.is)
		}
		got, _, ok := RepairBase64(v.Str())
		if !ok {
			got = "-"
		}
		if got != tt.want {
			t.Errorf("%q means %q, want %q", tt.in, got, tt.want)
		}
		if ok {
			if _, err := base64.StdEncoding.DecodeString(got); err != nil {
				t.Errorf("%q: %v", got, err)
			}
		}
	}
}

func TestSniff(t *testing.T) {
	for begin, want := range map[string]string{
		"\x89PNG\r\n\x1a\n....": "image/png", "\xff\xd8\xff\xe0....": "image/jpeg", "GIF89a": "image/gif",
		"RIFF\xff\xee\x00\x00WEBPVP8 ": "image/webp", "RIFF\x24\x00\x00\x00WAVEfmt ": "audio/wav", "RIFF\x24\x00\x00\x00AVI LIST": "application/octet-stream",
		"ID3\x03": "audio/mpeg", "OggS": "audio/ogg", "fLaC": "audio/flac", "<svg ": "image/svg+xml", "?": "application/octet-stream", "": "application/octet-stream",
	} {
		if got := SniffMIMEType(base64.StdEncoding.EncodeToString([]byte(begin))); got != want {
			t.Errorf("%q: %s, want %s", begin, got, want)
		}
	}
}

// Each byte at each place of a word is classified like by the table.
func TestAreDigits(t *testing.T) {
	for at := range 8 {
		for c := range 256 {
			for _, other := range []byte{'A', 'z', '0', '/', '+', 0x00, 0x80, 0xff} {
				word := []byte{other, other, other, other, other, other, other, other}
				word[at] = byte(c)
				var want uint64
				for i, b := range word {
					if base64Class[b] == 0 {
						want |= 0x80 << (8 * i)
					}
				}
				if got := areDigits(word); got != want {
					t.Fatalf("%x: %x, want %x", word, got, want)
				}
			}
		}
	}
}

func BenchmarkIsBase64(b *testing.B) {
	v := wire.ValueOf(wire.Raw(`"` + strings.Repeat("iVBORw0KGgo/", 1<<20/12) + `"`))
	b.SetBytes(int64(len(v.Raw())))
	for b.Loop() {
		if !IsBase64(v) {
			b.Fatal("not Base64")
		}
	}
}
