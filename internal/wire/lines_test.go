package wire

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestLineReader(t *testing.T) {
	const limit = 10
	const tooLarge = "(too large)"
	long := strings.Repeat("x", 200<<10) // longer than any buffer
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"last line without a newline", "a\nb", []string{"a", "b"}},
		{"CR LF", "a\r\nb\r\n", []string{"a", "b"}},
		{"blank lines", "\n\n \t\r\na\n\n\r\n  \nb\n\n", []string{"a", "b"}},
		{"space around", "  a b \t\n", []string{"a b"}},
		{"other space is the message's affair", "\u00a0a\v\n", []string{"\u00a0a\v"}},
		{"a CR inside", "a\rb\n", []string{"a\rb"}},
		{"at the limit", "0123456789\n0123456789\r\n0123456789", []string{"0123456789", "0123456789", "0123456789"}},
		{"over the limit", "0123456789a\nb\n", []string{tooLarge, "b"}},
		{"over the limit with CR LF", "0123456789a\r\nb\n", []string{tooLarge, "b"}},
		{"over the limit at the end", "a\n0123456789ab", []string{"a", tooLarge}},
		{"far over the limit", "a\n" + long + "\nb\n" + long + long + "\r\nc", []string{"a", tooLarge, "b", tooLarge, "c"}},
		{"far over the limit at the end", long, []string{tooLarge}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole":        strings.NewReader(tc.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tc.in)),
				"with EOF":     iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				l := NewLineReader(r, limit)
				var got []string
				for {
					line, err := l.Next()
					if err == io.EOF {
						break
					}
					switch {
					case err == ErrTooLarge:
						got = append(got, tooLarge)
					case err != nil:
						t.Fatal(err)
					default:
						got = append(got, string(line))
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if _, err := l.Next(); err != io.EOF {
					t.Errorf("%s: after the end: %v", name, err)
				}
			}
		})
	}
}

// Of a line over the limit it is known whose message it was.
func TestLineReaderLarge(t *testing.T) {
	text := `{"method":"m","params":"` + strings.Repeat("x", 200<<10) + `","id":7}`
	l := NewLineReader(strings.NewReader(text+"\n{}\n"+text[:20]), 1000)
	if _, err := l.Next(); err != ErrTooLarge || l.Oversized().RequestID() != IDOf("7") {
		t.Errorf("Next: %v, of request %q, want 7", err, l.Oversized().RequestID())
	}
	l = NewLineReader(strings.NewReader(`{"method":"m","id":7}`+"\r\n"), 20)
	if _, err := l.Next(); err != ErrTooLarge || l.Oversized().RequestID() != IDOf("7") {
		t.Errorf("by one byte: Next: %v, of request %q, want 7", err, l.Oversized().RequestID())
	}
}

// A line over the bound is not read to its end.
func TestLineReaderBound(t *testing.T) {
	const bound = 1 << 20
	long := strings.Repeat("x", bound-1)
	endless := &repeated{text: strings.Repeat("x", 1<<10), n: 64 << 10} // 64 MiB
	l := NewLineReader(io.MultiReader(strings.NewReader(long+"\nb\n"), endless), 10)
	l.SetMaxLine(bound)
	if _, err := l.Next(); err != ErrTooLarge {
		t.Errorf("below the bound: %v", err)
	}
	if line, err := l.Next(); string(line) != "b" || err != nil {
		t.Errorf("after that: %q, %v", line, err)
	}
	if _, err := l.Next(); err != ErrLineTooLong {
		t.Errorf("over the bound: %v", err)
	}
	if read := 64<<10 - endless.n; read > bound>>10+128 {
		t.Errorf("%d KiB were read, want about 1024", read)
	}
}

func TestLineReaderOwnership(t *testing.T) {
	l := NewLineReader(strings.NewReader("first\nother\n"), 10)
	first, _ := l.Next()
	l.Next()
	if string(first) != "first" {
		t.Errorf("a later line changed an earlier one to %q", first)
	}
}

func TestLineReaderError(t *testing.T) {
	boom := errors.New("boom")
	l := NewLineReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(boom)), 10)
	if line, err := l.Next(); string(line) != "a" || err != nil {
		t.Fatalf("Next = %q, %v", line, err)
	}
	if line, err := l.Next(); line != nil || err != boom {
		t.Errorf("Next = %q, %v; a line that an error cut off is no line", line, err)
	}
}

func TestLineReaderDoesNotWait(t *testing.T) {
	l := NewLineReader(&chunks{"a", "\nb\n"}, 10)
	for _, want := range []string{"a", "b"} {
		if line, err := l.Next(); string(line) != want || err != nil {
			t.Errorf("Next = %q, %v; want %q", line, err, want)
		}
	}
}

// A long line leaves no more garbage than its own length.
func TestLineReaderGarbage(t *testing.T) {
	const size = 8 << 20
	text := strings.Repeat("x", size)
	l := NewLineReader(strings.NewReader(text+"\n"), 2*size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	line, err := l.Next()
	runtime.ReadMemStats(&after)
	if string(line) != text || err != nil || cap(line) > size+size/8 {
		t.Errorf("%d bytes in %d, %v", len(line), cap(line), err)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 5*size/2 {
		t.Errorf("%d bytes were allocated for %d", made, size)
	}
}

// A line over the limit is thrown away as it comes.
func TestLineReaderDropsLongLines(t *testing.T) {
	allocs := testing.AllocsPerRun(1, func() {
		l := NewLineReader(&repeated{text: strings.Repeat("x", 1<<10), n: 64 << 10}, 1<<10) // 64 MiB
		if _, err := l.Next(); err != ErrTooLarge {
			t.Errorf("Next: %v", err)
		}
	})
	if allocs > 20 {
		t.Errorf("%.0f allocations", allocs)
	}
}

func TestAppendLine(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\n"}`:               "head\n" + `{"a":"\n"}` + "\n",
		"{\n  \"a\": 1\r\n}\r\n":   "head\n{   \"a\": 1  }  \n",
		"\n\n\r\r":                 "head\n    \n",
		"{\"a\":\"\u2028\u0085\"}": "head\n{\"a\":\"\u2028\u0085\"}\n",
	} {
		if got := string(AppendLine([]byte("head\n"), []byte(in))); got != want {
			t.Errorf("AppendLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// The lines are those between the newlines, whatever the sizes of the reads.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\r\n\n  {\"a\":1}\t\n{}"), uint8(100))
	f.Add([]byte("0123456789\n01234567890\n\r\n0"), uint8(10))
	f.Fuzz(func(t *testing.T, in []byte, limit uint8) {
		var want []string
		for line := range bytes.SplitAfterSeq(in, []byte("\n")) {
			trimmed := bytes.Trim(line, " \t\r\n")
			switch {
			case len(line) > int(limit)+len("\r\n") || len(trimmed) > int(limit):
				want = append(want, ErrTooLarge.Error())
			case len(trimmed) > 0:
				want = append(want, string(trimmed))
			}
		}
		for _, r := range []io.Reader{bytes.NewReader(in), iotest.OneByteReader(bytes.NewReader(in))} {
			var got []string
			for l := NewLineReader(r, int(limit)); ; {
				line, err := l.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					line = []byte(err.Error())
				}
				got = append(got, string(line))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q, at most %d bytes (-want +got):\n%s", in, limit, diff)
			}
		}
	})
}
