package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readEvents reads to the end and returns the error that ended the stream, nil
// for io.EOF.
func readEvents(r io.Reader, limit int) ([]Event, error) {
	s := NewSSEReader(r, limit)
	var out []Event
	for {
		ev, err := s.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
}

// empty data is as good as none.
var sameData = cmp.Transformer("text", func(b []byte) string { return string(b) })

func TestSSEReader(t *testing.T) {
	message := func(data string) Event { return Event{Data: []byte(data)} }
	for _, tc := range []struct {
		name, in string
		want     []Event
	}{
		{"nothing", "", nil},
		{"one", "data: x\n\n", []Event{message("x")}},
		{"all fields", "event: message\nid: 7\nretry: 1500\ndata: x\n\n", []Event{{Name: "message", ID: "7", HasID: true, Retry: 1500 * time.Millisecond, Data: []byte("x")}}},
		{"no space after the colon", "data:x\n\n", []Event{message("x")}},
		{"only one space goes", "data:  x \n\n", []Event{message(" x ")}},
		{"colons in the data", "data: a:b: c\n\n", []Event{message("a:b: c")}},
		{"several data lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []Event{message("a\nb\n\nc")}},
		{"data without a colon", "data\ndata\n\n", []Event{message("\n")}},
		{"one empty data line", "data\n\n", []Event{message("")}},
		{"CR LF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []Event{message("a\nb"), message("c")}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []Event{message("a\nb"), message("c")}},
		{"a mix of line ends", "data: a\rdata: b\ndata: c\r\n\n\rdata: d\n\r\ndata: e\r\n\r", []Event{message("a\nb\nc"), message("d"), message("e")}},
		{"LF CR is two ends", "data: a\n\rdata: b\n\n", []Event{message("a"), message("b")}},
		{"byte order mark", "\ufeffdata: a\n\n", []Event{message("a")}},
		{"byte order mark before a blank line", "\ufeff\ndata: a\n\n", []Event{message("a")}},
		{"byte order mark later", "data: a\n\n\ufeffdata: b\n\ndata: c\n\n", []Event{message("a"), message("c")}},
		{"two byte order marks", "\ufeff\ufeffdata: a\n\n", nil},
		{"comments", ": hi\n\n:\n\n:data: no\ndata: a\n: in the middle\ndata: b\n\n", []Event{message("a\nb")}},
		{"unknown fields and cases", "Data: no\nfoo: bar\nfoo\n data: no\ndata : no\ndata: a\n\n", []Event{message("a")}},
		{"event name alone is no event", "event: x\n\ndata: a\n\n", []Event{message("a")}},
		{"the last name counts", "event: x\nevent: y\ndata: a\n\n", []Event{{Name: "y", Data: []byte("a")}}},
		{"an id alone primes", "id: 7\n\n", []Event{{ID: "7", HasID: true}}},
		{"an id with empty data primes", "id: 7\ndata: \n\n", []Event{{ID: "7", HasID: true}}},
		{"empty id", "id\ndata: a\n\nid:\ndata: b\n\n", []Event{{HasID: true, Data: []byte("a")}, {HasID: true, Data: []byte("b")}}},
		{"id with NUL is ignored", "id: 1\nid: a\x00b\ndata: a\n\nid: \x00\ndata: b\n\n", []Event{{ID: "1", HasID: true, Data: []byte("a")}, message("b")}},
		{"an id does not last", "id: 1\ndata: a\n\ndata: b\n\n", []Event{{ID: "1", HasID: true, Data: []byte("a")}, message("b")}},
		{"retry that is no number", "retry: 1.5\nretry: -1\nretry: +1\nretry: x\nretry:\nretry: 0x10\nretry: 1_0\nretry: 4294967296\nretry: 99999999999999999999\ndata: a\n\n", []Event{message("a")}},
		{"retry alone", "retry: 20\n\n", []Event{{Retry: 20 * time.Millisecond}}},
		{"cut off in a line", "data: a\n\ndata: b", []Event{message("a")}},
		{"cut off before the blank line", "data: a\n\ndata: b\n", []Event{message("a")}},
		{"cut off by a lone CR", "data: a\n\ndata: b\r", []Event{message("a")}},
		{"many blank lines", "\n\r\n\r\rdata: a\n\n\n\n", []Event{message("a")}},
		{"longer than the buffer", "data: " + strings.Repeat("x", 10000) + "\r\ndata: y\r\n\r\n", []Event{message(strings.Repeat("x", 10000) + "\ny")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			readers := map[string]func() io.Reader{
				"whole":          func() io.Reader { return strings.NewReader(tc.in) },
				"byte by byte":   func() io.Reader { return iotest.OneByteReader(strings.NewReader(tc.in)) },
				"data with EOF":  func() io.Reader { return iotest.DataErrReader(strings.NewReader(tc.in)) },
				"half as wanted": func() io.Reader { return iotest.HalfReader(strings.NewReader(tc.in)) },
			}
			for name, reader := range readers {
				got, err := readEvents(reader(), 1<<20)
				if diff := cmp.Diff(tc.want, got, sameData); err != nil || diff != "" {
					t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
				}
			}
			for i := range min(len(tc.in), 200) { // in two reads, split at every byte
				got, err := readEvents(io.MultiReader(strings.NewReader(tc.in[:i]), strings.NewReader(tc.in[i:])), 1<<20)
				if diff := cmp.Diff(tc.want, got, sameData); err != nil || diff != "" {
					t.Fatalf("split at %d: %v (-want +got):\n%s", i, err, diff)
				}
			}
		})
	}
}

// chunks hands out one chunk per Read, and then errStarved: a real stream
// would block there.
type chunks []string

var errStarved = errors.New("waited for more than was there")

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, errStarved
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

func TestSSEReaderDoesNotWait(t *testing.T) {
	for _, tc := range []struct {
		name   string
		chunks chunks
		want   []string
	}{
		{"LF", chunks{"data: a\n\n"}, []string{"a"}},
		{"LF split", chunks{"data: a\n", "\n"}, []string{"a"}},
		{"CR", chunks{"data: a\r\r"}, []string{"a"}},
		{"CR split", chunks{"data: a\r", "\r"}, []string{"a"}},
		{"CR LF", chunks{"data: a\r\n\r\n"}, []string{"a"}},
		{"CR LF whose LF is still on its way", chunks{"data: a\r\n\r"}, []string{"a"}},
		{"CR LF split everywhere", chunks{"data: a\r", "\n", "\r", "\ndata: b\r", "\n\r"}, []string{"a", "b"}},
		{"CR then LF", chunks{"data: a\r", "\n\n"}, []string{"a"}},
		{"two at once", chunks{"data: a\n\ndata: b\n\n"}, []string{"a", "b"}},
		{"the next one begun", chunks{"data: a\n\ndata: b"}, []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewSSEReader(&tc.chunks, 100)
			for _, want := range tc.want {
				if ev, err := s.Next(); err != nil || string(ev.Data) != want {
					t.Fatalf("Next = %q, %v; want %q", ev.Data, err, want)
				}
			}
			if ev, err := s.Next(); err != errStarved {
				t.Errorf("Next = %+v, %v; want the reader's own error", ev, err)
			}
		})
	}
}

func TestSSEReaderLimit(t *testing.T) {
	const limit = 20
	full := strings.Repeat("x", limit)
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"at the limit", "data: " + full + "\n\n", nil},
		{"over the limit", "data: " + full + "x\n\n", ErrTooLarge},
		{"over the limit without a space", "data:" + full + "x\n\n", ErrTooLarge},
		{"lines at the limit", "data: " + full[:9] + "\ndata: " + full[:10] + "\n\n", nil},
		{"lines over the limit", "data: " + full[:10] + "\ndata: " + full[:10] + "\n\n", ErrTooLarge},
		{"empty lines over the limit", strings.Repeat("data\n", limit+2) + "\n", ErrTooLarge},
		{"each event counts alone", strings.Repeat("data: "+full+"\n\n", 3), nil},
		{"a line without end", "data: " + strings.Repeat("x", 100), ErrTooLarge},
		{"a comment without end", ": " + strings.Repeat("x", 100), ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				if _, err := readEvents(r, limit); err != tc.want {
					t.Errorf("got %v, want %v", err, tc.want)
				}
			}
		})
	}
}

// repeated reads as text, n times over.
type repeated struct {
	text string
	n    int
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	total := 0
	for total < len(p) {
		if r.rest == "" {
			if r.n == 0 {
				break
			}
			r.n--
			r.rest = r.text
		}
		n := copy(p[total:], r.rest)
		r.rest = r.rest[n:]
		total += n
	}
	if total == 0 {
		return 0, io.EOF
	}
	return total, nil
}

// A stream may live for days on keep-alive comments, with or without blank
// lines between them: they must neither count as one large event nor gather.
func TestSSEReaderKeepAlive(t *testing.T) {
	for name, comment := range map[string]string{
		"frames":         ": keep-alive\n\n",
		"lines":          ": keep-alive\n",
		"CR LF":          ":\r\n",
		"unknown fields": "ping: 1\n",
		"names":          "event: ping\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			const rounds = 50_000
			allocs := testing.AllocsPerRun(1, func() {
				r := io.MultiReader(&repeated{text: comment, n: rounds}, strings.NewReader("\ndata: a\n\n"))
				got, err := readEvents(r, 64)
				if err != nil || len(got) != 1 || string(got[0].Data) != "a" {
					t.Errorf("got %+v, %v", got, err)
				}
			})
			// A name is a small string of its own, garbage at once; nothing else may allocate per line.
			if allocs > 1000 && name != "names" {
				t.Errorf("%.0f allocations for %d comments", allocs, rounds)
			}
		})
	}
}

// The caller owns the data: what is read later must not change it.
func TestSSEReaderDataIsOwned(t *testing.T) {
	got, err := readEvents(strings.NewReader(strings.Repeat("data: first\n\ndata: other\n\n", 1000)), 100)
	if err != nil {
		t.Fatal(err)
	}
	for i, ev := range got {
		if want := []string{"first", "other"}[i%2]; string(ev.Data) != want {
			t.Fatalf("event %d is %q, want %q", i, ev.Data, want)
		}
	}
}

func TestSSEReaderError(t *testing.T) {
	s := NewSSEReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("data: a\n\n"))), 100)
	if ev, err := s.Next(); err != iotest.ErrTimeout {
		t.Errorf("Next = %+v, %v; want the reader's error", ev, err)
	}
}

func TestAppendEvent(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Event
		want string
	}{
		{"message", Event{Data: []byte(`{"a":1}`)}, "data: {\"a\":1}\n\n"},
		{"all fields", Event{Name: "endpoint", ID: "a/1", HasID: true, Retry: 2 * time.Second, Data: []byte("/messages")}, "event: endpoint\nid: a/1\nretry: 2000\ndata: /messages\n\n"},
		{"priming", Event{ID: "1", HasID: true}, "id: 1\ndata: \n\n"},
		{"an id that does not count", Event{ID: "1", Data: []byte("x")}, "data: x\n\n"},
		{"line breaks", Event{Data: []byte("a\nb\r\nc\rd\n\re\n")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: e\ndata: \n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(AppendEvent([]byte("head "), tc.in)); got != "head "+tc.want {
				t.Errorf("got %q, want %q", got, "head "+tc.want)
			}
		})
	}
	if got := string(AppendComment([]byte("data: x\n\n"), "keep-alive")); got != "data: x\n\n: keep-alive\n\n" {
		t.Errorf("AppendComment = %q", got)
	}
	if got := string(AppendRetry([]byte("data: x\n\n"), 1500*time.Millisecond)); got != "data: x\n\nretry: 1500\n\n" {
		t.Errorf("AppendRetry = %q", got)
	}
	if got, err := readEvents(bytes.NewReader(AppendComment(nil, "x")), 10); err != nil || got != nil {
		t.Errorf("a comment reads as %+v, %v", got, err)
	}
}

func TestEventIsMessage(t *testing.T) {
	for _, tc := range []struct {
		ev   Event
		want bool
	}{
		{Event{Data: []byte("x")}, true},
		{Event{Name: "message", Data: []byte("x")}, true},
		{Event{Name: "endpoint", Data: []byte("x")}, false},
		{Event{Name: "Message", Data: []byte("x")}, false},
		{Event{ID: "1", HasID: true}, false},
		{Event{Retry: 1}, false},
	} {
		if got := tc.ev.IsMessage(); got != tc.want {
			t.Errorf("IsMessage of %+v = %v", tc.ev, got)
		}
	}
}

// plainEvents reads a whole stream in the simplest way: the reader's
// definition, for the fuzz target.
func plainEvents(in string) []Event {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(in)
	var out []Event
	var ev Event
	var data []string
	seen := false
	lines := strings.Split(in, "\n")
	for _, line := range lines[:len(lines)-1] { // the last one has no end
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		ms, err := strconv.ParseUint(value, 10, 31)
		switch {
		case line == "":
			if seen {
				ev.Data = []byte(strings.Join(data, "\n"))
				out = append(out, ev)
			}
			ev, data, seen = Event{}, nil, false
		case field == "data":
			data, seen = append(data, value), true
		case field == "event":
			ev.Name = value
		case field == "id" && !strings.Contains(value, "\x00"):
			ev.ID, ev.HasID, seen = value, true, true
		case field == "retry" && err == nil:
			ev.Retry, seen = time.Duration(ms)*time.Millisecond, true
		}
	}
	return out
}

func FuzzSSE(f *testing.F) {
	for _, s := range []string{
		"data: a\r\ndata: b\r\r\nid: 1\nretry: 5\n\n", "\ufeff: c\n\ndata\n\n", "id: \x00\ndata:x\r\r", "event: e\n\nevent: f\ndata: g\n\n", "data: a\n\n\rdata",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		want := plainEvents(string(in))
		whole, err := readEvents(bytes.NewReader(in), 1<<20)
		if diff := cmp.Diff(want, whole, sameData); err != nil || diff != "" {
			t.Fatalf("%q: %v (-want +got):\n%s", in, err, diff)
		}
		split, err := readEvents(iotest.OneByteReader(bytes.NewReader(in)), 1<<20)
		if diff := cmp.Diff(whole, split, sameData); err != nil || diff != "" {
			t.Fatalf("%q byte by byte: %v (-whole +split):\n%s", in, err, diff)
		}

		// Events over the limit are skipped alike, however the text arrives.
		skipped := readEventsSkipping(bytes.NewReader(in), 8, 64)
		if diff := cmp.Diff(skipped, readEventsSkipping(iotest.OneByteReader(bytes.NewReader(in)), 8, 64)); diff != "" && !slices.Contains(skipped, ErrTooLarge.Error()) {
			t.Fatalf("%q with a limit (-whole +split):\n%s", in, diff)
		}

		// An event that was read can be written and read again, and so can any data.
		var stream []byte
		for _, ev := range append(whole, Event{Data: in}) {
			stream = AppendComment(AppendEvent(stream, ev), "x")
		}
		again, err := readEvents(bytes.NewReader(stream), 1<<20)
		broken := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(in))
		if diff := cmp.Diff(append(whole, Event{Data: []byte(broken)}), again, sameData); err != nil || diff != "" {
			t.Fatalf("%q written and read again: %v (-want +got):\n%s", in, err, diff)
		}
	})
}

// readEventsSkipping reads a stream as text: events, and what is known of those over the limit.
func readEventsSkipping(r io.Reader, limit int, most int64) (out []string) {
	s := NewSSEReader(r, limit)
	s.SetMaxEvent(most)
	for {
		ev, err := s.Next()
		switch {
		case err == nil:
			out = append(out, fmt.Sprintf("%s %q", ev.Name, ev.Data))
		case err == ErrTooLarge && s.Oversized() != nil:
			out = append(out, fmt.Sprintf("too large, response %q, request %q", s.Oversized().ResponseID(), s.Oversized().RequestID()))
		default:
			return append(out, err.Error())
		}
	}
}

// An event over the limit tells which message it was, and the events after it are read.
func TestSSESkipsLargeEvents(t *testing.T) {
	const limit, most = 64, 1000
	large := strings.Repeat("x", 100)
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"response":               {`data: {"jsonrpc":"2.0","id":7,"result":{"text":"` + large + `"}}` + "\n\ndata: next\n\n", []string{`too large, response "7", request ""`, ` "next"`, "EOF"}},
		"id at the end, CRLF":    {`data:{"jsonrpc":"2.0","result":{"text":"` + large + `"},"id":"a"}` + "\r\n\r\ndata: next\r\n\r\n", []string{`too large, response "\"a\"", request ""`, ` "next"`, "EOF"}},
		"request in many lines":  {"id: 1\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":8,\ndata: \"method\":\"m\",\ndata:\"params\":{\"a\":\ndata\n: comment\ndata:  \"" + large + "\"}}\n\ndata: next\n\n", []string{`too large, response "", request "8"`, ` "next"`, "EOF"}},
		"first, after a mark":    {"\ufeffdata: {\"id\":9,\"error\":\"" + large + "\"}\n\n", []string{`too large, response "9", request ""`, "EOF"}},
		"two in a row":           {"data: " + large + "\n\ndata: " + large + "\n\n", []string{`too large, response "", request ""`, `too large, response "", request ""`, "EOF"}},
		"broken off":             {"data: " + large, []string{"EOF"}},
		"much larger":            {"data: " + strings.Repeat(large, 11) + "\n\ndata: next\n\n", []string{"message over the size limit"}},
		"a large event, many of": {strings.Repeat("data: "+large+"\n\n", 20) + "data: next\n\n", append(slices.Repeat([]string{`too large, response "", request ""`}, 20), ` "next"`, "EOF")},
	} {
		if diff := cmp.Diff(tc.want, readEventsSkipping(iotest.HalfReader(strings.NewReader(tc.in)), limit, most)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.want, readEventsSkipping(iotest.OneByteReader(strings.NewReader(tc.in)), limit, most)); diff != "" {
			t.Errorf("%s, byte by byte (-want +got):\n%s", name, diff)
		}
	}
}

// Lines that tell nothing are counted.
func TestSSECountsIgnoredLines(t *testing.T) {
	s := NewSSEReader(strings.NewReader(": a\n:\n\nunknown: 1\ndata: 1\nid: 2\n\nretry: 5\nevent: e\n\n\n"), 100)
	n := 0
	s.OnIgnored(func() { n++ })
	for {
		if _, err := s.Next(); err != nil {
			break
		}
	}
	if want := 5; n != want { // two comments, a blank line, an unknown field, and the last line
		t.Errorf("%d lines are ignored, want %d", n, want)
	}
}
