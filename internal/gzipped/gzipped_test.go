package gzipped

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// decode decodes one member and checks that nothing follows it.
func decode(t testing.TB, member []byte) string {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(member))
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Errorf("%d bytes follow the member", len(rest))
	}
	return string(out)
}

func random(n int) string {
	rnd := rand.New(rand.NewChaCha8([32]byte{1}))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return string(b)
}

func TestTextIsTheEndOfManyMembers(t *testing.T) {
	for name, text := range map[string][]string{
		"empty":          {},
		"short":          {"x"},
		"pieces":         {strings.Repeat(`{"name":"tool"},`, 5000), "]}", "}"},
		"incompressible": {random(200_000)},
	} {
		t.Run(name, func(t *testing.T) {
			var pieces [][]byte
			for _, p := range text {
				pieces = append(pieces, []byte(p))
			}
			var shared Text
			for _, begin := range []string{"", "1", `{"jsonrpc":"2.0","id":7,"result":`, strings.Repeat("long", 20_000), random(maxStored), random(2*maxStored + 1)} {
				out, cut, stream := shared.Append([]byte("before"), []byte(begin), pieces...)
				member := append(append(bytes.Clone(out[len("before"):cut]), stream...), out[cut:]...)
				if got := decode(t, member); got != begin+strings.Join(text, "") {
					t.Errorf("a beginning of %d bytes: decoded %.60q", len(begin), got)
				}
				pieces = nil // the text was compressed by the first call
			}
		})
	}
}

func TestTextIsCompressedOnce(t *testing.T) {
	var shared Text
	var wg sync.WaitGroup
	streams := make([]*byte, 8)
	for i := range streams {
		wg.Go(func() {
			out, cut, stream := shared.Append(nil, fmt.Append(nil, i), []byte(strings.Repeat("text", 1000)))
			streams[i] = &stream[0]
			if got := decode(t, append(append(bytes.Clone(out[:cut]), stream...), out[cut:]...)); !strings.HasPrefix(got, fmt.Sprint(i, "text")) {
				t.Errorf("decoded %.20q", got)
			}
		})
	}
	wg.Wait()
	for _, s := range streams {
		if s != streams[0] {
			t.Error("the text was compressed twice")
		}
	}
	buf, begin := make([]byte, 0, 1024), []byte(`{"id":1`)
	if n := testing.AllocsPerRun(100, func() { shared.Append(buf, begin) }); n != 0 {
		t.Errorf("%v allocations for another member, want none", n)
	}
}

func TestCompress(t *testing.T) {
	words := strings.Repeat("some words of a tool; ", 10_000)
	for _, tt := range []struct {
		name  string
		text  []string
		worth bool
	}{
		{"empty", nil, true},
		{"short", []string{"{", "}"}, true},
		{"as long as the sample", []string{words[:sample]}, true},
		{"pieces", []string{"head", words, "tail"}, true},
		{"the sample ends in a piece", []string{words[:sample-1], words}, true},
		{"random", []string{"head", random(100_000)}, false},
		{"random later", []string{words, random(100_000)}, true},
		{"short and random", []string{random(1000)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pieces [][]byte
			for _, p := range tt.text {
				pieces = append(pieces, []byte(p))
			}
			out, worth := Compress([]byte("before"), pieces...)
			if worth != tt.worth {
				t.Fatalf("worth: %v, want %v", worth, tt.worth)
			}
			if !worth {
				if string(out) != "before" {
					t.Errorf("got %.20q, want what was there before", out)
				}
				return
			}
			if got := decode(t, out[len("before"):]); got != strings.Join(tt.text, "") {
				t.Errorf("decoded %.60q", got)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("head"), []byte("text"), []byte("end"))
	f.Fuzz(func(t *testing.T, begin, text, end []byte) {
		var shared Text
		out, cut, stream := shared.Append(nil, begin, text, end)
		if got := decode(t, append(append(bytes.Clone(out[:cut]), stream...), out[cut:]...)); got != string(begin)+string(text)+string(end) {
			t.Errorf("decoded %q", got)
		}
		if whole, worth := Compress(nil, begin, text, end); worth && decode(t, whole) != string(begin)+string(text)+string(end) {
			t.Error("Compress has lost something")
		}
	})
}

func BenchmarkCompress(b *testing.B) {
	text := []byte(strings.Repeat(`{"name":"tool","description":"does this and that","inputSchema":{"type":"object"}},`, 12_000))
	var buf []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = Compress(buf[:0], text)
	}
}
