package results

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mcpgateway/internal/wire"
)

// documentOf returns the document of text blocks.
func documentOf(texts ...string) *Document {
	d := &Document{}
	for _, t := range texts {
		d.add(Part{Kind: kindText}, wire.ValueOf(wire.String(t)))
	}
	return d
}

// numbered returns n lines, "line 1" and so on.
func numbered(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	plain := documentOf("one\ntwo\nthree é\nfour\n")
	items := documentOf(`{"items":[{"id":1,"name":"a/b"},{"id":2,"log":"x\ny\u001b[31mz\n\ud83d"}],"a/b":{"~":true},"":7,"n":null}`)
	several := documentOf("first\n", `[1,2]`, "third")
	blob := &Document{}
	blob.addBlob(Part{Kind: kindResource, MIMEType: "image/x"}, wire.ValueOf(wire.Raw(`"AAECAwQFBgc="`)))
	for _, tt := range []struct {
		d                  *Document
		query, text, shown string
		err                string
	}{
		{d: plain, query: "", text: "one\ntwo\nthree é\nfour\n", shown: "bytes 0-21 of 22"},
		{d: plain, query: "/", text: "one\ntwo\nthree é\nfour\n", shown: "bytes 0-21 of 22"},
		{d: plain, query: "/1?lines=2", text: "two\n", shown: "lines 2-2 of 4"},
		{d: plain, query: "?lines=2-3", text: "two\nthree é\n", shown: "lines 2-3 of 4"},
		{d: plain, query: "?lines=3-", text: "three é\nfour\n", shown: "lines 3-4 of 4"},
		{d: plain, query: "?lines=-1", text: "four\n", shown: "lines 4-4 of 4"},
		{d: plain, query: "?lines=-99", text: "one\ntwo\nthree é\nfour\n", shown: "lines 1-4 of 4"},
		{d: plain, query: "?lines=4-99", text: "four\n", shown: "lines 4-4 of 4"},
		{d: plain, query: "?lines=0-2", text: "one\ntwo\n", shown: "lines 1-2 of 4"},
		{d: plain, query: "?lines=0", err: "lines are numbered from 1"},
		{d: plain, query: "?lines=5", err: "lines=5-5: there are 4 lines, numbered from 1"},
		{d: plain, query: "?lines=3-2", err: `lines must be "from-to", "from-" for up to the end, or "-n" for the last n; it is "3-2"`},
		{d: plain, query: "?lines=1,2", err: `lines must be`},
		{d: plain, query: "?lines=99999999999999999999", err: `lines must be`},
		{d: plain, query: "?range=0-2", text: "one", shown: "bytes 0-2 of 22"},
		{d: plain, query: "?range=4-", text: "two\nthree é\nfour\n", shown: "bytes 4-21 of 22"},
		{d: plain, query: "?range=-5", text: "four\n", shown: "bytes 17-21 of 22"},
		{d: plain, query: "?range=14-15", text: "é", shown: "bytes 14-15 of 22"},
		{d: plain, query: "?range=15-16", text: "é\n", shown: "bytes 14-16 of 22"},
		{d: plain, query: "?range=22-", err: "range=22-: there are 22 bytes, numbered from 0"},
		{d: plain, query: "?grep=^t", text: "2:two\n3:three é\n", shown: "2 matching lines among lines 1-4 of 4"},
		{d: plain, query: "?grep=two&context=1", text: "1-one\n2:two\n3-three é\n", shown: "1 matching line among lines 1-4 of 4"},
		{d: plain, query: "?grep=(%3Fi)FOUR&lines=3-4", text: "4:four\n", shown: "1 matching line among lines 3-4 of 4"},
		{d: plain, query: "?grep=nothing", text: "", shown: "0 matching lines among lines 1-4 of 4"},
		{d: plain, query: "?grep=o+", text: "1:one\n2:two\n4:four\n", shown: "3 matching lines among lines 1-4 of 4"},
		{d: plain, query: "?grep=(", err: "grep must be a regular expression in the syntax of RE2: error parsing regexp: missing closing ): `(`"},
		{d: plain, query: "?grep=x&range=1-2", err: "range cannot be combined with lines or grep; use lines to say where grep looks"},
		{d: plain, query: "?context=2", err: "context is the number of lines around the matches of grep; it has no meaning without grep"},
		{d: plain, query: "?grep=x&context=-1", err: `context must be a number of lines from 0 to 100, not "-1"`},
		{d: plain, query: "?pointer=/a", err: "the text is not a JSON object or array; use lines, range or grep instead of pointer"},
		{d: plain, query: "?line=3", err: `the URI has the unknown parameter "line"; there are pointer, lines, range, grep and context`},
		{d: plain, query: "?lines=1&lines=2", err: `the URI has "lines" twice`},
		{d: plain, query: "?grep=%zz", err: `"grep=%zz" in the URI is not well escaped: write % as %25`},
		{d: plain, query: "/0", err: `after the id of a result there may be the number of a part, from 1, not "0"`},
		{d: plain, query: "/2", err: "the result has 1 part, not 2"},
		{d: items, query: "?pointer=/items/0", text: `{"id":1,"name":"a/b"}`, shown: "bytes 0-20 of 21"},
		{d: items, query: "?pointer=/items/0/id", text: `1`, shown: "bytes 0-0 of 1"},
		{d: items, query: "?pointer=/a~1b/~0", text: `true`, shown: "bytes 0-3 of 4"},
		{d: items, query: "?pointer=/", text: `7`, shown: "bytes 0-0 of 1"},
		{d: items, query: "?pointer=/n", text: `null`, shown: "bytes 0-3 of 4"},
		{d: items, query: "?pointer=/items/1/log", text: "x\ny\\u001b[31mz\n�", shown: "bytes 0-17 of 18"},
		{d: items, query: "?pointer=/items/1/log&lines=1", text: "x\n", shown: "lines 1-1 of 3"},
		{d: items, query: "?pointer=/items/2", err: `pointer "/items/2": "/items" has 2 elements, numbered from 0`},
		{d: items, query: "?pointer=/items/01", err: `pointer "/items/01": "/items" is an array: the next step must be an index, not "01"`},
		{d: items, query: "?pointer=/items/-", err: `is an array: the next step must be an index, not "-"`},
		{d: items, query: "?pointer=/itens", err: `pointer "/itens": the value has no member "itens"; it has "items", "a/b", "", "n"`},
		{d: items, query: "?pointer=/n/x", err: `pointer "/n/x": "/n" is null, which has no members`},
		{d: items, query: "?pointer=items", err: `pointer must begin with /, such as /items/3, or be empty for the whole value; it is "items"`},
		{d: items, query: "?pointer=/~2", err: `in a pointer, ~ is written ~0 and / in a name is written ~1`},
		{d: items, query: "?pointer=" + strings.Repeat("/0", 65), err: "pointer has 65 steps; at most 64 are read"},
		{d: several, query: "", text: "first\n[1,2]\nthird", shown: "bytes 0-16 of 17"},
		{d: several, query: "?lines=2-3", text: "[1,2]\nthird", shown: "lines 2-3 of 3"},
		{d: several, query: "/2?pointer=/1", text: "2", shown: "bytes 0-0 of 1"},
		{d: several, query: "/3", text: "third", shown: "bytes 0-4 of 5"},
		{d: several, query: "?pointer=/1", err: "the result has 3 parts; a pointer is about one of them"},
		{d: blob, query: "?range=2-4", text: "\x02\x03\x04", shown: "bytes 2-4 of 8 of a blob"},
		{d: blob, query: "", text: "\x00\x01\x02\x03\x04\x05\x06\x07", shown: "bytes 0-7 of 8 of a blob"},
		{d: blob, query: "?lines=1", err: `the part is a blob of type "image/x"; only range reads parts of it`},
		{d: documentOf("", ""), query: "?range=0-3", text: "", shown: "nothing: the text is empty"},
	} {
		q, err := ParseQuery(tt.query)
		var p Piece
		if err == nil {
			p, err = tt.d.Read(context.Background(), &q, 1<<20)
		}
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v\nwant %s", tt.query, err, tt.err)
			}
			continue
		}
		if got := string(p.Text) + string(p.Blob); err != nil || got != tt.text || p.Shown != tt.shown || p.Next != "" {
			t.Errorf("%s: %q, %q, next %q, %v\nwant %q, %q", tt.query, got, p.Shown, p.Next, err, tt.text, tt.shown)
		}
	}
}

// Whatever the query, pieces have at most about max bytes, and following Next leads to the end
// of what was asked for, without a gap.
func TestPiecesFollowEachOther(t *testing.T) {
	log := numbered(3000)
	long := strings.Repeat("0123456789é", 3000)
	for _, tt := range []struct{ text, query, want string }{
		{log, "?range=0-", log},
		{log, "?range=100-20000", log[100:20001]},
		{log, "?lines=1-", log},
		{log, "?lines=-1000", log[lineStart([]byte(log), 2001):]},
		{log, "?lines=10-2000", log[lineStart([]byte(log), 10):lineStart([]byte(log), 2001)]},
		{long, "?lines=1", long},
		{"short\n" + long + "\nshort\n", "?range=0-", "short\n" + long + "\nshort\n"},
		{`{"a":{"b":` + string(wire.String(log)) + `}}`, "?pointer=/a/b", log},
		{`{"a":{"b":` + string(wire.String(log)) + `}}`, "?pointer=/a/b&lines=5-", log[lineStart([]byte(log), 5):]},
	} {
		d, rest, got, reads := documentOf(tt.text), tt.query, "", 0
		for ; rest != ""; reads++ {
			q, err := ParseQuery(rest)
			if err != nil {
				t.Fatalf("%s: %v", rest, err)
			}
			p, err := d.Read(context.Background(), &q, 1000)
			if err != nil || len(p.Text) > 1000 || len(p.Text) == 0 {
				t.Fatalf("%s: %d bytes, %v", rest, len(p.Text), err)
			}
			got += string(p.Text)
			rest = p.Next
		}
		if got != tt.want || reads < 5 {
			t.Errorf("%s: %d bytes in %d reads, want %d", tt.query, len(got), reads, len(tt.want))
		}
	}
}

func TestGrepGoesOn(t *testing.T) {
	d, rest, matches := documentOf(numbered(5000)), "?grep=7&context=1&lines=2-", 0
	for reads := 0; rest != ""; reads++ {
		q, err := ParseQuery(rest)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Read(context.Background(), &q, 2000)
		if err != nil || len(p.Text) > 2000 || reads > 100 {
			t.Fatalf("%s: %d bytes, %v", rest, len(p.Text), err)
		}
		for line := range strings.Lines(string(p.Text)) {
			if n, text, ok := strings.Cut(line, ":"); ok {
				matches++
				if text != "line "+n+"\n" {
					t.Errorf("line %s is %q", n, text)
				}
			}
		}
		rest = p.Next
	}
	want := 0
	for line := range strings.Lines(numbered(5000)) {
		if strings.Contains(line, "7") {
			want++
		}
	}
	if matches != want {
		t.Errorf("%d matches, want %d", matches, want)
	}
}

// A text in one line shows the surroundings of its matches.
func TestGrepInALongLine(t *testing.T) {
	d := documentOf(strings.Repeat("x", 200_000) + "needle" + strings.Repeat("é", 100_000) + "needle")
	q, err := ParseQuery("?grep=needle")
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Read(context.Background(), &q, 4096)
	if err != nil || p.Next != "" || strings.Count(string(p.Text), "needle") != 2 || !strings.HasPrefix(string(p.Text), "1:[byte 199900 of the line] xxx") {
		t.Errorf("%q, %v", p.Text, err)
	}
}

// Searches are bounded, whatever the text and the expression are.
func TestSearchesAreBounded(t *testing.T) {
	lines := strings.Repeat(strings.Repeat("x", 79)+"\n", 1<<16)
	for _, tt := range []struct{ name, text, expr string }{
		{"one line", strings.Repeat("x", 16<<20), "x"},
		{"one line, slow", strings.Repeat("x", 16<<20), "(x?){200}y"},
		{"empty lines", strings.Repeat("\n", 2<<20), ".*.*.*.*y"},
		{"lines", lines, "(?:x|x|xx)*z"},
		{"all lines match", lines, "x*"},
	} {
		q, err := ParseQuery("?grep=" + escape(tt.expr))
		if err != nil {
			t.Fatal(err)
		}
		p, err := documentOf(tt.text).Read(context.Background(), &q, 4096)
		if err != nil || len(p.Text) > 4096+longLine {
			t.Errorf("%s: %d bytes, %v", tt.name, len(p.Text), err)
		}
		if stopped := strings.Contains(p.Shown, "took too long, and stopped at byte"); stopped != (tt.name == "one line, slow") {
			t.Errorf("%s: %s", tt.name, p.Shown)
		}
	}
	for _, expr := range []string{"(x{1000}){1000}", "(", strings.Repeat("x", 1025), `((x{100}){9}y?){9}`} {
		if _, err := ParseQuery("?grep=" + escape(expr)); err == nil {
			t.Errorf("%.40s is accepted", expr)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q, _ := ParseQuery("?grep=y")
	if _, err := documentOf(lines).Read(ctx, &q, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that nobody waits for: %v", err)
	}
}

func TestParseURI(t *testing.T) {
	for uri, want := range map[string][2]string{
		"gateway+result://abc":               {"abc", ""},
		"gateway+result://abc/":              {"abc", "/"},
		"gateway+result://abc/2?lines=1":     {"abc", "/2?lines=1"},
		"gateway+result://abc?pointer=/a?/b": {"abc", "?pointer=/a?/b"},
		"gateway+result://":                  {},
		"gateway+result://?x":                {},
		"gateway+result:abc":                 {},
		"other+result://abc":                 {},
		"gateway+result://abc?grep=" + strings.Repeat("x", maxURILength): {},
	} {
		if id, rest, ok := ParseURI(uri); id != want[0] || ok && rest != want[1] || ok != (want[0] != "") {
			t.Errorf("%.60s: %q, %q, %v", uri, id, rest, ok)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, q := range []string{"?lines=1-2", "?range=1-", "?pointer=/a/0&range=-3", "?grep=a.*b&context=2&lines=2-", "/1?pointer=/~01"} {
		f.Add(q, `{"a":["x\ny",{"~1":2}]}`, 20)
		f.Add(q, "one\ntwo\r\n\xc3\xa9 three", 3)
	}
	f.Fuzz(func(t *testing.T, rest, text string, most int) {
		q, err := ParseQuery(rest)
		if err != nil {
			return
		}
		d := documentOf(text)
		most = 4 + most&0xfff
		whole := q.whole()
		p, err := d.Read(context.Background(), &q, most)
		if err != nil {
			return
		}
		if !whole && q.grep == nil && len(p.Text) > most {
			t.Errorf("%d bytes of %d", len(p.Text), most)
		}
		if p.Next == "" {
			return
		}
		next, err := ParseQuery(p.Next)
		if err != nil {
			t.Fatalf("next %q: %v", p.Next, err)
		}
		if _, err := d.Read(context.Background(), &next, most); err != nil {
			t.Errorf("next %q: %v", p.Next, err)
		}
		if p.Next == rest {
			t.Errorf("%q leads to itself", rest)
		}
	})
}

// A search waits for its turn, as long as somebody waits for it.
func TestSearchesWaitForTheirTurn(t *testing.T) {
	for range cap(searching) {
		searching <- struct{}{}
	}
	q, err := ParseQuery("?grep=x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := documentOf("x").Read(ctx, &q, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that nobody waits for: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := documentOf("x").Read(context.Background(), &q, 100)
		done <- err
	}()
	for range cap(searching) {
		<-searching
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
