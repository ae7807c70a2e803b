//go:build !race

// The race detector makes pools forget at random, which would count here.

package wire

import (
	"bytes"
	"runtime"
	"testing"
)

// Large messages are read into memory of the pool, and parsed there.
func TestLargeMessagesAreNotCopied(t *testing.T) {
	large := plainResultOf("The quick brown fox. ")
	frame := AppendEvent(nil, Event{Name: "message", Data: large})
	src := bytes.NewReader(nil)
	for _, tc := range []struct {
		name string
		max  uint64 // bytes for each message
		read func() ([]byte, *Buffer, error)
	}{
		{"a body", 64 << 10, func() ([]byte, *Buffer, error) {
			src.Reset(large)
			b := NewBuffer(NextStep(0, int64(len(large)), 2<<20))
			err := b.ReadAll(src, int64(len(large)), 2<<20)
			return b.B, b, err
		}},
		{"an event", 64 << 10, func() ([]byte, *Buffer, error) {
			src.Reset(frame)
			ev, err := NewSSEReader(src, 2<<20).Next()
			return ev.Data, ev.Buffer, err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run := func() {
				data, b, err := tc.read()
				if err != nil || b == nil {
					t.Fatalf("%v, in memory of the pool: %v", err, b != nil)
				}
				if m, err := ParseUpstream(data, Limits{}); err != nil || len(m.Result) < 1<<20 {
					t.Fatalf("%d bytes, %v", len(m.Result), err)
				}
				b.Release()
			}
			run()
			const times = 50
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range times {
				run()
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / times; got > tc.max {
				t.Errorf("a message takes %d bytes of new memory, want at most %d", got, tc.max)
			}
		})
	}
}

// The data path's bounds on allocations, whatever the size of a message.
func TestAllocations(t *testing.T) {
	request, result, list := requestOf(1<<10), textResultOf(50<<10), listResultOf(50<<10)
	parsed, err := Parse(request, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	params := ValueOf(parsed.Params)
	buf, token := make([]byte, 0, 128<<10), Raw("1")
	for _, tc := range []struct {
		name string
		max  float64
		run  func()
	}{
		{"parse a request", 2, func() { Parse(request, Limits{}) }},       // the id and the method
		{"parse a result", 2, func() { ParseUpstream(result, Limits{}) }}, // the id and where the long string is
		{"parse a list", 1, func() { ParseUpstream(list, Limits{}) }},
		{"append a message", 0, func() { parsed.Append(buf) }},
		{"look a member up", 0, func() { params.Get("_meta", MetaProgressToken).Int() }},
		{"edit two members", 4, func() { // two places, one string, the document
			e := NewEdit(parsed.Params)
			e.ReplaceString(e.Root().Get("name"), "search")
			e.Set(e.Root().Get("_meta"), MetaProgressToken, token)
			e.Bytes()
		}},
		{"edit nothing", 0, func() { NewEdit(parsed.Params).Bytes() }},
		{"append an event", 0, func() { AppendEvent(buf, Event{ID: "1", HasID: true, Data: result}) }},
		{"append a line", 0, func() { AppendLine(buf, list) }},
		{"encode a plain header", 0, func() { EncodeHeader("files__search") }},
		{"decode a plain header", 0, func() { DecodeHeader("files__search") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(100, tc.run); got > tc.max {
				t.Errorf("%.0f allocations, want at most %.0f", got, tc.max)
			}
		})
	}
}
