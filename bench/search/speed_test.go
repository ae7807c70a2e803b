package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpgateway/internal/search"
)

//go:embed manifest.json
var manifestJSON []byte

// manyTools makes n tools with the names of real ones, of servers that have 50 each. Their
// descriptions are words of names and queries: 40 words, and 6 parameters with 8 words each,
// which is what real definitions have in the middle.
func manyTools(tb testing.TB, n int) ([]search.Tool, []query) {
	tb.Helper()
	var manifest []struct{ Tools []string }
	if err := json.Unmarshal(manifestJSON, &manifest); err != nil {
		tb.Fatal(err)
	}
	var queries []query
	if err := json.Unmarshal(queriesJSON, &queries); err != nil {
		tb.Fatal(err)
	}
	var names, words []string
	for _, m := range manifest {
		names = append(names, m.Tools...)
		for _, name := range m.Tools {
			words = append(words, strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' })...)
		}
	}
	for _, q := range queries {
		words = append(words, strings.Fields(q.Text)...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[random.IntN(len(words))]) // frequent words are there often
			b.WriteByte(' ')
		}
		return b.String()
	}
	tools := make([]search.Tool, n)
	for i := range tools {
		server := fmt.Sprintf("server%d", i/50)
		t := search.Tool{Upstream: server, Name: server + "__" + names[random.IntN(len(names))], Description: text(40)}
		for range 6 {
			t.Params = append(t.Params, search.Param{Name: words[random.IntN(len(words))], Description: text(8)})
		}
		tools[i] = t
	}
	return tools, queries
}

const many = 10_000

func analyzed(tools []search.Tool) []*search.Doc {
	docs := make([]*search.Doc, len(tools))
	for i, t := range tools {
		docs[i] = search.Analyze(t)
	}
	return docs
}

// BenchmarkSearch asks our queries of 10,000 tools.
func BenchmarkSearch(b *testing.B) {
	tools, queries := manyTools(b, many)
	x := search.New(analyzed(tools))
	b.ReportAllocs()
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		x.Search(search.Query{Text: queries[i%len(queries)].Text})
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "median-ns")
	b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
}

// BenchmarkAnalyze makes the document of one tool.
func BenchmarkAnalyze(b *testing.B) {
	tools, _ := manyTools(b, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		search.Analyze(tools[i%len(tools)])
	}
}

// BenchmarkNew makes an index of 10,000 documents, as after each change of a list, and reports
// the memory of documents and index for each tool.
func BenchmarkNew(b *testing.B) {
	tools, _ := manyTools(b, many)
	before := heap()
	docs := analyzed(tools)
	between := heap()
	x := search.New(docs)
	after := heap()
	for b.Loop() {
		x = search.New(docs)
	}
	b.ReportMetric(float64(between-before)/many, "doc-B/tool")
	b.ReportMetric(float64(after-between)/many, "index-B/tool")
	runtime.KeepAlive(x)
	runtime.KeepAlive(tools)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
