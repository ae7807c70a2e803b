package search

import (
	"math"
	"slices"
	"strings"
	"sync"
)

// weights of a word by the field in which it is, and by how much the length of the field
// matters: in a long field a word says less.
var weights = [fields]struct{ weight, length float64 }{
	inName:             {3, 0.6},
	inTitle:            {2, 0.4},
	inSummary:          {1.5, 0.5},
	inDescription:      {0.5, 0.6},
	inParam:            {0.5, 0.6},
	inParamDescription: {0.25, 0.7},
	inUpstream:         {1.5, 0},
	inTags:             {1.5, 0.4},
}

// upstreamImpact is that of a word of the server's name.
const upstreamImpact = 1.4

// saturation is the k1 of BM25: how soon more of the same word stops to matter.
const saturation = 1.2

// Index finds documents by their words. It is immutable.
type Index struct {
	docs     []*Doc
	terms    map[termID]int32 // index in starts
	starts   []int32          // of each term in postings, and the end of the last
	postings []posting        // of each term in the order of the documents
	words    []string         // sorted: the stems in names and titles
	servers  []string         // sorted: the words of the names of servers

	byKey, byBare []int32 // the documents in the order of their names, with and without upstream
	scratch       sync.Pool
}

// posting says how much a document has of a term.
type posting struct {
	doc    int32
	impact float32
}

// New makes an index of documents. Between documents with equal scores their order in docs
// decides.
func New(docs []*Doc) *Index {
	total := 0
	var scale scale
	for _, d := range docs {
		for f, n := range d.lengths {
			scale.mean[f] += float64(n) / float64(len(docs))
		}
		total += len(d.terms)
	}
	x := &Index{docs: docs, terms: make(map[termID]int32, total/8), postings: make([]posting, total)}
	numbers := make([]int32, 0, total) // the terms of all documents as indexes in starts
	var counts []int32
	for _, d := range docs {
		for i := range d.terms {
			n, ok := x.terms[d.terms[i].id]
			if !ok {
				n = int32(len(counts))
				x.terms[d.terms[i].id] = n
				counts = append(counts, 0)
			}
			counts[n]++
			numbers = append(numbers, n)
		}
	}
	x.starts = make([]int32, len(counts)+1)
	for n, c := range counts {
		x.starts[n+1] = x.starts[n] + c
		counts[n] = x.starts[n] // from here on where the next posting goes
	}
	for i, d := range docs {
		scale.set(d)
		for j := range d.terms {
			n := numbers[0]
			numbers = numbers[1:]
			x.postings[counts[n]] = posting{int32(i), scale.impact(&d.terms[j])}
			counts[n]++
		}
	}
	x.order()
	x.scratch.New = func() any {
		return &scratch{scores: make([]float32, len(docs)), best: make([]float32, len(docs))}
	}
	return x
}

// Len returns how many documents the index has.
func (x *Index) Len() int { return len(x.docs) }

// Doc returns a document by its place in the slice that New got.
func (x *Index) Doc(i int) *Doc { return x.docs[i] }

// scale is how much a word counts in each field of a document.
type scale struct{ mean, factor [fields]float64 }

func (s *scale) set(d *Doc) {
	for f, w := range weights {
		length := 1.0
		if s.mean[f] > 0 {
			length = float64(d.lengths[f]) / s.mean[f]
		}
		s.factor[f] = w.weight / (1 - w.length + w.length*length)
	}
}

// impact is the part of BM25F that does not depend on how rare the term is. A word of the
// server's name says which server is meant and nothing of its tools, so all of them have it
// alike.
func (s *scale) impact(t *docTerm) float32 {
	if t.count[inUpstream] > 0 {
		return upstreamImpact
	}
	tf := 0.0
	for f, n := range t.count {
		if n > 0 {
			tf += float64(n) * s.factor[f]
		}
	}
	return float32(tf / (tf + saturation))
}

// of returns the postings of a term.
func (x *Index) of(id termID) []posting {
	n, ok := x.terms[id]
	if !ok {
		return nil
	}
	return x.postings[x.starts[n]:x.starts[n+1]]
}

// rarity says how much a term counts that so many documents have: the idf of BM25, tempered,
// since a rare word of a question is often beside the point.
func (x *Index) rarity(documents int) float32 {
	n, all := float64(documents), float64(len(x.docs))
	return float32(math.Pow(math.Log1p((all-n+0.5)/(n+0.5)), 0.75))
}

// order sorts what names are looked up in.
func (x *Index) order() {
	x.byKey, x.byBare = make([]int32, len(x.docs)), make([]int32, len(x.docs))
	for i := range x.docs {
		x.byKey[i], x.byBare[i] = int32(i), int32(i)
	}
	slices.SortStableFunc(x.byKey, func(a, b int32) int { return strings.Compare(x.docs[a].key, x.docs[b].key) })
	slices.SortStableFunc(x.byBare, func(a, b int32) int { return strings.Compare(x.docs[a].bareKey(), x.docs[b].bareKey()) })
	last := ""
	for _, d := range x.docs {
		x.words = append(x.words, d.words...)
		if d.upstream != last { // the tools of a server stand together
			last = d.upstream
			x.servers = append(x.servers, strings.Fields(keyOf(d.upstream))...)
		}
	}
	x.words, x.servers = sorted(x.words), sorted(x.servers)
}

// sorted sorts words and leaves out those that are there already.
func sorted(words []string) []string {
	slices.Sort(words)
	return slices.Clip(slices.Compact(words))
}
