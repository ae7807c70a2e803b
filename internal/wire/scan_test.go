package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The scanner must accept nothing that the library refuses. It may give up only on text
// that is rare.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		`{"a":"b","c":[1,-0.5e+3,true,false,null,{}],"d":{"a":[]}}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[[[]]]`, `"` + strings.Repeat("x", 70) + `\n"`,
		`"\ud83d"`, "\"\xed\xa0\x80\"", "\"\u00e9\u2028\U0001f600\"", "\"\x7f\"", "\"\x1f\"", `01`, `-`, `1.`, `1e`, `[1,]`, `{"a":1,}`, `{,}`, `[}`, "\xef\xbb\xbf{}", ` 1 2`, "",
	} {
		f.Add([]byte(s))
	}
	f.Add(textResultOf(300))
	f.Add(listResultOf(300))
	for seed := range uint64(50) {
		f.Add([]byte(newRandomJSON(seed, seed%2 == 0).object(3)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, strictness := range []Strictness{Strict, Lenient} {
			for _, depth := range []int{2, 100} {
				slow := checkSlowly(data, Limits{Depth: depth}, strictness)
				fast, _ := accepts(data, depth, strictness)
				if fast && slow != nil {
					t.Fatalf("%q is accepted, but %v", data, slow)
				}
				if !fast && slow == nil && !mayGiveUp(data, strictness) {
					t.Fatalf("%q is not accepted", data)
				}
			}
		}
		for _, plain := range []int{0, longRun + 40} { // after longRun bytes the scanner looks with vectors
			text := append(bytes.Repeat([]byte("a"), plain), data...)
			if end, slow := endOfString(text, 0), stringEndSlowly(text); end != slow {
				t.Fatalf("%q ends at %d, want %d", text, end, slow)
			}
		}
	})
}

// mayGiveUp reports whether the scanner may not accept a valid text: one with a name that
// has an escape, or with many members.
func mayGiveUp(data []byte, strictness Strictness) bool {
	return strictness == Strict && (bytes.Contains(data, []byte(`\`)) || bytes.Count(data, []byte(":")) >= scanNames || bytes.Count(data, []byte("{")) >= scanObjects)
}

// stringEndSlowly is endOfString, byte by byte.
func stringEndSlowly(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			if !utf8.Valid(b[:i]) {
				return -1
			}
			return i + 1
		case b[i] < ' ':
			return -1
		case b[i] != '\\':
		case i+1 < len(b) && strings.IndexByte(`"\/bfnrt`, b[i+1]) >= 0:
			i++
		case i+5 < len(b) && b[i+1] == 'u' && len(strings.Trim(string(b[i+2:i+6]), "0123456789abcdefABCDEF")) == 0:
			i += 5
		default:
			return -1
		}
	}
	return -1
}

// Every byte at every place of a word is found.
func TestEndOfString(t *testing.T) {
	for length := range 80 {
		for c := range 256 {
			for _, at := range []int{0, length / 2, length} {
				text := []byte(strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("é", (length-at)/2) + `"x`)
				if got, want := endOfString(text, 0), stringEndSlowly(text); got != want {
					t.Fatalf("%q ends at %d, want %d", text, got, want)
				}
			}
		}
	}
}

// So is every byte after much plain text, which is looked at with vectors: at the end of the text, between two windows, and
// between a quote and a backslash.
func TestEndOfLongString(t *testing.T) {
	for c := range 256 {
		for _, at := range []int{longRun - 1, longRun, longRun + 31, longRun + 32, longRun + 33, 4600, 4608, 4640, 9000} {
			for _, after := range []int{0, 1, 40, 5000} {
				for _, end := range []string{`"x`, `\n"`, `\`, "é\"", ""} {
					text := slices.Concat(bytes.Repeat([]byte("a"), at), []byte{byte(c)}, bytes.Repeat([]byte("b"), after), []byte(end))
					if got, want := endOfString(text, 0), stringEndSlowly(text); got != want {
						t.Fatalf("%d bytes, %#x, %d bytes and %q end at %d, want %d", at, byte(c), after, end, got, want)
					}
				}
			}
		}
	}
}

// Messages of usual forms need no second look.
func TestScannerAcceptsUsualText(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `%s"m%d":{"a":[{"b":%d}]}`, strings.Repeat(",", min(i, 1)), i, i)
		}
		return "{" + b.String() + "}"
	}
	for name, tt := range map[string]struct {
		text string
		want bool
	}{
		"a request":            {string(requestOf(300)), true},
		"a text":               {string(textResultOf(300)), true},
		"a list":               {string(listResultOf(3000)), true},
		"60 members":           {many(60), true},
		"70 members":           {many(70), false},
		"the deepest":          {strings.Repeat("[", 1000) + strings.Repeat("]", 1000), true},
		"deeper":               {strings.Repeat("[", 1001) + strings.Repeat("]", 1001), false},
		"names in two objects": {`[{"a":1},{"a":2}]`, true},
	} {
		if got, _ := accepts([]byte(tt.text), DefaultDepth, Strict); got != tt.want {
			t.Errorf("%s: accepted %v, want %v", name, got, tt.want)
		}
	}
}
