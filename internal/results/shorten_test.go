package results

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/wire"
)

// textResult returns a result with text blocks.
func textResult(texts ...string) string {
	var blocks []string
	for _, t := range texts {
		blocks = append(blocks, `{"type":"text","text":`+string(wire.String(t))+`}`)
	}
	return `{"content":[` + strings.Join(blocks, ",") + `]}`
}

var testLink = Link{URI: Scheme + "//abcdefghijklmnopqrstuvwxyz234567", Tool: "files__read", TTL: time.Hour}

// items returns a JSON array of objects, as servers of databases send.
func items(n int) string {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item %d","tags":["a","b"]}`, i, i)
	}
	fmt.Fprintf(&b, `],"total":%d}`, n)
	return b.String()
}

// shortened returns the blocks of the shorter result.
func shortened(t *testing.T, in string, max int, keep bool) (s *Shortened, out wire.Value, texts []string) {
	t.Helper()
	if err := wire.Check([]byte(in), wire.Limits{}, wire.Lenient); err != nil {
		t.Fatal(err)
	}
	if s = Shorten(wire.ValueOf(wire.Raw(in)), max, keep); s == nil {
		return nil, wire.Value{}, nil
	}
	raw := s.Result(testLink)
	if err := wire.Check(raw, wire.Limits{}, wire.Lenient); err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	out = wire.ValueOf(raw)
	for el := range out.Get("content").Elements() {
		texts = append(texts, el.Get("text").Str())
	}
	return s, out, texts
}

func TestALongResult(t *testing.T) {
	text := items(2000)
	s, out, texts := shortened(t, `{"_meta":{"x":1},`+textResult(text)[1:len(textResult(text))-1]+`,"isError":true}`, 8192, false)
	if string(s.Document.Text) != text || len(s.Document.Parts) != 1 || !s.Document.Parts[0].JSON {
		t.Errorf("the document has %d bytes in %d parts", len(s.Document.Text), len(s.Document.Parts))
	}
	if len(texts) != 3 || !strings.HasPrefix(text, texts[0]) || len(texts[0]) < 4096 || len(texts[0])+len(texts[1]) > 8192 {
		t.Fatalf("%d blocks; %d and %d bytes", len(texts), len(texts[0]), len(texts[1]))
	}
	if !strings.HasSuffix(texts[0], ",") && !strings.HasSuffix(texts[0], "}") {
		t.Errorf("the beginning ends with %q", texts[0][len(texts[0])-20:])
	}
	for _, want := range []string{
		fmt.Sprintf("it has %d bytes; above are the first %d. All of it is kept for 1h.", len(text), len(texts[0])),
		"\n/items: array, 2000 elements, all like the first: objects, ", "\n/items/0/id: number 0\n", "\n/items/0/name: string \"item 0\"\n", "\n/items/0/tags: array, 2 elements, all like the first: strings, 9 bytes\n", "\n/total: number 2000\n",
		`call read_result with {"uri": "gateway+result://abc`, `"pointer": "/…"`, `such as ?pointer=/….]`,
	} {
		if !strings.Contains(texts[1], want) {
			t.Errorf("the note lacks %q:\n%s", want, texts[1])
		}
	}
	link := string(wire.ValueOf(out.Get("content").Raw()).Raw())
	if want := fmt.Sprintf(`,"mimeType":"application/json","size":%d}]`, len(text)); !strings.HasSuffix(link, want) || !strings.Contains(link, `{"type":"resource_link","uri":"`+testLink.URI+`","name":"result of files__read","description":"The whole result, kept for 1h. `) {
		t.Errorf("the link: %s", link[len(link)-600:])
	}
	if !out.Get("isError").Bool() || string(out.Get("_meta").Raw()) != `{"x":1}` {
		t.Error("other members are not what they were")
	}
}

func TestWhatIsShortened(t *testing.T) {
	long, json := strings.Repeat("some words and ", 2000), items(500)
	blob := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00\x01", 10_000)))
	image := `{"type":"image","data":"` + blob + `","mimeType":"image/png"}`
	for _, tt := range []struct {
		name, in string
		keep     bool
		parts    int      // 0: unchanged
		types    string   // of the blocks
		has      []string // in the result
		hasNot   []string
	}{
		{name: "short", in: textResult("short")},
		{name: "short with a long image", in: `{"content":[` + image + `,{"type":"text","text":"x"}]}`},
		{name: "long escapes of a short text", in: `{"content":[{"type":"text","text":"` + strings.Repeat(`\u0041`, 4096) + `"}]}`},
		{name: "long text", in: textResult(long), parts: 1, types: "text text resource_link"},
		{name: "image between texts", in: `{"content":[{"type":"text","text":"a"},` + image + `,` + textResult(long)[12:], parts: 2, types: "text image text text resource_link", has: []string{image, "part 2: text, 30000 bytes, lines 2-2"}},
		{name: "many texts", in: textResult(strings.Split(strings.Repeat("a row of the table,", 2000), ",")...), parts: 501, has: []string{"in 2000 lines"}},
		{name: "structuredContent with a schema", in: textResult(json)[:len(textResult(json))-1] + `,"structuredContent":` + json + `}`, keep: true, parts: 1, types: "text text resource_link", has: []string{`"structuredContent":` + json}},
		{name: "structuredContent with a schema and no text", in: `{"structuredContent":` + json + `,"content":[]}`, keep: true},
		{name: "structuredContent and the same text", in: textResult(strings.ReplaceAll(json, ",", ", "))[:len(textResult(strings.ReplaceAll(json, ",", ", ")))-1] + `,"structuredContent":` + json + `}`, parts: 1, types: "text text resource_link", hasNot: []string{"structuredContent"}},
		{name: "structuredContent alone", in: `{"structuredContent":` + json + `}`, parts: 1, types: "text text resource_link", hasNot: []string{"structuredContent"}, has: []string{"/items/0/id"}},
		{name: "structuredContent and a summary", in: `{"structuredContent":` + json + `,"content":[{"type":"text","text":"500 items"}]}`, parts: 2, types: "text text text resource_link", has: []string{"500 items", "part 2: structuredContent, application/json, "}, hasNot: []string{`"structuredContent":`}},
		{name: "short structuredContent beside a long text", in: textResult(long)[:len(textResult(long))-1] + `,"structuredContent":{"n":1}}`, parts: 1, types: "text text resource_link", has: []string{`"structuredContent":{"n":1}`}},
		{name: "resource", in: `{"content":[{"type":"resource","resource":{"uri":"f://a","mimeType":"text/markdown","text":` + string(wire.String("# A\n"+long+"\n## B\n")) + `}}]}`, parts: 1, types: "text text resource_link", has: []string{`"mimeType":"text/markdown"`}},
		{name: "blob", in: `{"content":[{"type":"resource","resource":{"uri":"f://a","blob":"` + blob + `"}},{"type":"text","text":"after"}]}`, parts: 2, types: "text text resource_link", has: []string{"after", "part 1: resource f://a, application/octet-stream, a blob of 20000 bytes"}, hasNot: []string{blob}},
		{name: "unknown block", in: `{"content":[{"type":"new","text":1},` + textResult(long)[12:], parts: 1, types: "new text text resource_link", has: []string{`{"type":"new","text":1}`}},
		{name: "not content", in: `{"content":"` + long + `"}`},
		{name: "two contents", in: textResult("a")[:len(textResult("a"))-1] + "," + textResult(long)[1:], parts: 2, types: "text text text resource_link"},
		{name: "odd blocks", in: `{"content":[1,null,"x",{"type":"text","text":5},{"type":"resource","resource":[]},` + textResult(long)[12:], parts: 1, types: "     text resource text text resource_link"},
		{name: "lone surrogates", in: `{"content":[{"type":"text","text":"` + strings.Repeat(`\ud83d `, 2000) + `"}]}`, parts: 1, types: "text text resource_link"},
	} {
		s, out, texts := shortened(t, tt.in, 4096, tt.keep)
		if s == nil || tt.parts == 0 {
			if s != nil || tt.parts != 0 {
				t.Errorf("%s: shortened %v", tt.name, s != nil)
			}
			continue
		}
		if len(s.Document.Parts) != tt.parts {
			t.Errorf("%s: %d parts", tt.name, len(s.Document.Parts))
		}
		var types []string
		for el := range out.Get("content").Elements() {
			types = append(types, el.Get("type").Str())
		}
		if got := strings.Join(types, " "); tt.types != "" && strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(tt.types), " ") {
			t.Errorf("%s: blocks %s", tt.name, got)
		}
		if n := len(strings.Join(texts, "")); n > 4096 {
			t.Errorf("%s: %d bytes of text are left", tt.name, n)
		}
		for _, want := range tt.has {
			if !strings.Contains(string(out.Raw())+strings.Join(texts, ""), want) {
				t.Errorf("%s: lacks %.100q\n%.3000s", tt.name, want, out.Raw())
			}
		}
		for _, not := range tt.hasNot {
			if strings.Contains(string(out.Raw()), not) {
				t.Errorf("%s: has %.100q", tt.name, not)
			}
		}
	}
}

// The note says where the beginning ends, and how to go on.
func TestNotes(t *testing.T) {
	_, _, log := shortened(t, textResult(numbered(2000)), 4096, false)
	if want := fmt.Sprintf("it has %d bytes in 2000 lines; above are the first %d, lines 1-%d. ", len(numbered(2000)), len(log[0]), strings.Count(log[0], "\n")); !strings.Contains(log[1], want) || !strings.HasSuffix(log[1], "such as ?lines=1-200.]") {
		t.Errorf("lines: %s\nwant %s", log[1], want)
	}
	_, _, line := shortened(t, textResult(strings.Repeat("x", 9000)), 4096, false)
	if strings.Contains(line[1], "lines") || !strings.HasSuffix(line[1], "such as ?range=0-4095.]") {
		t.Errorf("one line: %s", line[1])
	}
	_, _, parts := shortened(t, textResult("first\n", numbered(2000)), 4096, false)
	if !strings.Contains(parts[2], "part 1: text, 6 bytes, lines 1-1\npart 2: text, ") || !strings.Contains(parts[2], `"part": 1 (to which`) {
		t.Errorf("parts: %s", parts[2])
	}
}

// A result with very many blocks is kept without a part for each.
func TestVeryManyBlocks(t *testing.T) {
	texts := make([]string, 200_000)
	for i := range texts {
		texts[i] = fmt.Sprint("row ", i)
	}
	s, _, left := shortened(t, textResult(texts...), 4096, false)
	if got := string(s.Document.Text); got != strings.Join(texts, "\n") || len(s.Document.Parts) != maxParts+1 {
		t.Errorf("%d bytes in %d parts", len(got), len(s.Document.Parts))
	}
	if last := s.Document.text(&s.Document.Parts[maxParts]); !strings.HasPrefix(string(last), "row 500\nrow 501\n") || !strings.HasSuffix(string(last), "\nrow 199999") {
		t.Errorf("the last part begins with %.40q", last)
	}
	if got := strings.Join(left[:len(left)-2], "\n"); !strings.HasPrefix(strings.Join(texts, "\n"), got) || len(got) < 2000 {
		t.Errorf("the beginning has %d bytes", len(got))
	}
	if over := s.Document.Size() - int64(len(s.Document.Text)); over > 100<<10 {
		t.Errorf("%d bytes beside the text", over)
	}
}

// The texts of a result are copied once.
func TestMemoryOfALongResult(t *testing.T) {
	in := wire.ValueOf(wire.Raw(textResult(strings.Repeat("0123456789abcdef", 10<<20/16))))
	var s *Shortened
	n := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s = Shorten(in, 32<<10, false)
			s.Result(testLink)
		}
	}).AllocedBytesPerOp()
	if over := n - 10<<20; over > 300<<10 {
		t.Errorf("%d KiB more than the text", over>>10)
	}
	if size := s.Document.Size(); size > 10<<20+2048 || cap(s.Document.Text) > 10<<20+64 {
		t.Errorf("the document takes %d bytes, in memory of %d", size, cap(s.Document.Text))
	}
}

func TestHostileOutlines(t *testing.T) {
	wide := "{" + strings.Repeat(`"k":1,`, 300_000) + `"z":2}`
	for name, text := range map[string]string{
		"deep arrays":   strings.Repeat("[", 900) + strings.Repeat(" ", 9000) + strings.Repeat("]", 900),
		"deep objects":  strings.Repeat(`{"a":`, 900) + "1" + strings.Repeat("}", 900),
		"too deep":      strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"wide":          wide,
		"wide and wide": "[" + strings.Repeat(wide[:601]+`"z":2},`, 1000) + "1]",
		"long names":    `{"` + strings.Repeat("n", 100_000) + `":{"` + strings.Repeat("é", 100_000) + `":1}}`,
		"odd names":     `{"a\u0000b\u001b[31m":1,"\u202e":2,"/~":3,"":4,"\ud83d":5, "` + "\u202e" + `": 6,` + strings.Repeat(" ", 9000) + `"end":null}`,
		"long numbers":  "[" + strings.Repeat("1", 100_000) + "]",
		"one line":      strings.Repeat("x", 16<<20),
		"markdown":      strings.Repeat("# A\x1b\u202e"+strings.Repeat("a", 500)+"\n```\n# not a heading\n```\n", 5000),
		"nothing":       strings.Repeat(" ", 9000),
	} {
		s, _, texts := shortened(t, textResult(text), 4096, false)
		note := texts[len(texts)-2]
		if n := len(strings.Join(texts, "")); n > 4096 {
			t.Errorf("%s: %d bytes are left", name, n)
		}
		if strings.ContainsAny(note, "\x00\x1b\u202e") {
			t.Errorf("%s: hidden characters: %q", name, note)
		}
		t.Logf("%s: %.700s", name, s.Document.outline(1024))
	}
}

func FuzzShorten(f *testing.F) {
	f.Add(items(100), 4096)
	f.Add("# a\n## b\n"+numbered(1000), 5000)
	f.Add(`{"a":[[1],[2]],"b/~":{"":"`+strings.Repeat("x", 5000)+`"}}`, 4096)
	f.Fuzz(func(t *testing.T, text string, max int) {
		max = 4096 + max&0xffff
		for _, in := range []string{textResult(text), textResult(text, "", text), textResult("x")[:len(textResult("x"))-1] + `,"structuredContent":` + string(wire.String(text)) + `}`} {
			s, out, texts := shortened(t, in, max, false)
			if s == nil {
				continue
			}
			if n := len(strings.Join(texts, "")); n > max {
				t.Errorf("%d bytes are left of %d", n, max)
			}
			if !out.Get("content").Exists() {
				t.Error("no content")
			}
		}
	})
}
