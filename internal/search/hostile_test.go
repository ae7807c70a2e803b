package search

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// A search allocates its page and what the text of the query needs, whatever the index holds.
func TestAllocationsOfASearch(t *testing.T) {
	for _, n := range []int{100, 5000} {
		var tools []Tool
		for i := range n {
			tools = append(tools, Tool{Name: fmt.Sprintf("s__list_%d_things", i), Upstream: "s", Description: "Lists things that are there"})
		}
		x := indexOf(tools)
		for _, text := range []string{"list things", "s__list_7_things", "", "lsit thigns"} {
			q := Query{Text: text, Prior: func(*Doc) float64 { return 0.5 }}
			x.Search(q)
			if got := testing.AllocsPerRun(50, func() { x.Search(q) }); got > 40 {
				t.Errorf("%d tools, %q: %.0f allocations", n, text, got)
			}
		}
	}
}

// A document is bounded, whatever the definition of the tool.
func TestADocumentIsBounded(t *testing.T) {
	var words strings.Builder
	for i := 0; words.Len() < 1<<20; i++ {
		fmt.Fprintf(&words, "w%dx%d ", i, i*7)
	}
	huge := words.String()
	tool := Tool{Name: huge, Title: huge, Description: huge, Upstream: huge}
	for range 5000 {
		tool.Params = append(tool.Params, Param{huge, huge})
		tool.Tags = append(tool.Tags, huge)
	}
	d := Analyze(tool)
	if len(d.terms) > maxTerms || len(d.key) > 4*maxName || len(strings.Join(d.words, "")) > 4*(maxName+maxTitle) {
		t.Errorf("%d terms, a key of %d bytes, words of %d bytes", len(d.terms), len(d.key), len(strings.Join(d.words, "")))
	}
	x := New([]*Doc{d, Analyze(examples[0])})
	if p := x.Search(Query{Text: huge}); p.Total > 2 {
		t.Errorf("%d of 2 documents", p.Total)
	}
}

// Memory of which an index does not let go is bounded by what it holds.
func TestWordsDoNotKeepTheDefinition(t *testing.T) {
	d := Analyze(Tool{Name: "a__b", Description: strings.Repeat("x y z ", 1<<16)})
	total := 0
	for _, w := range d.words {
		total += len(w)
	}
	if total > 100 {
		t.Errorf("%d bytes of words", total)
	}
}

func FuzzAnalyze(f *testing.F) {
	for _, t := range examples {
		f.Add(t.Name, t.Title, t.Description, t.Upstream)
	}
	f.Add("__", "\xff\u0301", "ＡＢＣ搜索ไฟล์", "_")
	f.Add(strings.Repeat("aB1", 300), "’s ’’s", "مُحَمَّد", "")
	f.Fuzz(func(t *testing.T, name, title, description, upstream string) {
		d := Analyze(Tool{Name: name, Title: title, Description: description, Upstream: upstream, Params: []Param{{title, name}}, Tags: []string{title}})
		if len(d.terms) > maxTerms || d.bare > len(d.key) || d.name != name {
			t.Fatalf("%d terms, key %q from %d", len(d.terms), d.key, d.bare)
		}
		for _, w := range d.words {
			if w == "" || !utf8.ValidString(w) || w != strings.ToLower(w) && utf8.RuneCountInString(w) > 2 {
				t.Errorf("word %q", w)
			}
		}
		x := New([]*Doc{d})
		// A tool is found by its name, if it has a letter or digit and the search looks at all of it.
		if k := keyOf(name); len(k) >= minPrefix && len(name) <= maxName {
			if p := x.Search(Query{Text: name}); p.Total != 1 {
				t.Errorf("%q (%q) does not find itself: key %q", name, k, d.key)
			}
		}
	})
}

func FuzzSearch(f *testing.F) {
	x := indexOf(examples)
	for _, text := range []string{"create issue", "", "the of and", "\x00\x1b[2J", "搜索页面", "البحث", strings.Repeat("issue ", 1000), strings.Repeat("é\u0301", 500), "zzzz_yyyy.xxxx/wwww"} {
		f.Add(text, 0, 5)
	}
	f.Fuzz(func(t *testing.T, text string, offset, limit int) {
		q := Query{Text: text, Offset: offset, Limit: limit}
		p := x.Search(q)
		if p.Total > x.Len() || len(p.Hits) > MaxLimit || p.Next < 0 || p.Next > p.Total {
			t.Fatalf("total %d, %d hits, next %d", p.Total, len(p.Hits), p.Next)
		}
		for i, h := range p.Hits {
			if math.IsNaN(h.Score) || h.Score <= 0 || i > 0 && h.Score > p.Hits[i-1].Score {
				t.Fatalf("scores are not in order: %v", p.Hits)
			}
		}
		if again := x.Search(q); fmt.Sprint(again) != fmt.Sprint(p) {
			t.Fatalf("a second search differs: %v, %v", p, again)
		}
	})
}

func TestHugeQueries(t *testing.T) {
	x := indexOf(examples)
	for name, text := range map[string]string{
		"one word":   strings.Repeat("x", 1<<20),
		"words":      strings.Repeat("issue create ", 1<<17),
		"stop words": strings.Repeat("the of and ", 1<<17),
		"spaces":     strings.Repeat(" ", 1<<20),
		"controls":   strings.Repeat("\x00\x1b", 1<<19),
		"Chinese":    strings.Repeat("搜索页面", 1<<17),
		"marks":      "a" + strings.Repeat("\u0301", 1<<19),
		"unknown":    strings.Repeat("forcast_qwrty ", 1<<16),
		"invalid":    strings.Repeat("\xff", 1<<20),
	} {
		got := testing.AllocsPerRun(1, func() { x.Search(Query{Text: text}) })
		if got > 8*maxQuery {
			t.Errorf("%s: %.0f allocations", name, got)
		}
	}
}
