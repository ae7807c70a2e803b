package search

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"mcpgateway/internal/plaintext"
)

// How many results a page has.
const (
	DefaultLimit = 10
	MaxLimit     = 100
)

const (
	// priorWeight is how much the score of a tool grows by a prior of 1.
	priorWeight = 0.15
	// actionFactor is by how much the score of a tool grows if it does what the query asks for.
	actionFactor = 1.2
	// minPrefix is how many bytes of a name find the tools whose names begin with them.
	minPrefix = 3
)

// Query is a search query.
type Query struct {
	// Text is words or a name. A text without words that count matches all tools.
	Text string
	// Offset is how many of the first results are left out: Next of the page before.
	Offset int
	// Limit is how many results a page has at most: 0 stands for DefaultLimit, and more than
	// MaxLimit for MaxLimit.
	Limit int

	// Upstream leaves only tools of this server, unless it is empty.
	Upstream string
	// True and False leave only tools for which all these hints are true or false.
	True, False Hints

	// Prior returns from 0 to 1 how much a tool was used before. It may be nil.
	Prior func(*Doc) float64

	// Nearest are the places of documents in another ranking, the best first, as by
	// embeddings. Documents are then ranked by both, by reciprocal rank fusion.
	Nearest []int
}

func (q *Query) matches(d *Doc) bool {
	return (q.Upstream == "" || q.Upstream == d.upstream) && d.hints&q.True == q.True && d.hints&q.False == 0
}

// Page is a part of the results of a query.
type Page struct {
	Hits  []Hit
	Total int  // of all pages
	Next  int  // the Offset of the next page, 0 if there is none
	All   bool // the text has no words: each document that passes the filters is a hit
}

// Hit is a tool that was found.
type Hit struct {
	*Doc
	Index int     // the place of the Doc in the slice that New got
	Score float64 // falls from hit to hit
}

// scratch is the working memory of a search, kept for the next one. Between searches all scores
// are 0.
type scratch struct {
	scores, best []float32 // by document: of all words so far, and of the word at hand
	found        []int32   // documents with a score
	touched      []int32   // documents with a best
	terms        []queryTerm
	words        int // terms that stand for themselves
	stemmer      stemmer
}

// Search returns a page of the documents that match a query, the best first. A document whose
// name is the text of the query comes before all others, then those whose names begin with
// it.
func (x *Index) Search(q Query) Page {
	q.Text = plaintext.Truncate(q.Text, maxQuery)
	s := x.scratch.Get().(*scratch)
	s.found = s.found[:0]
	x.parse(s, q.Text)
	name := keyOf(q.Text)
	all := len(s.terms) == 0
	if all {
		for i := range x.docs {
			s.raise(int32(i), 1)
		}
	}
	x.score(s)
	highest := x.narrow(s, &q)
	if len(q.Nearest) > 0 {
		highest = x.fuse(s, &q)
	}
	x.named(s, &q, name, highest)
	page := x.page(s, &q)
	page.All = all
	for _, d := range s.found {
		s.scores[d] = 0
	}
	x.scratch.Put(s) // not after a panic: its scores would be found in other searches
	return page
}

// raise adds to the score of a document.
func (s *scratch) raise(d int32, by float32) {
	if s.scores[d] == 0 {
		s.found = append(s.found, d)
	}
	s.scores[d] += by
}

// before is the order of results.
func (s *scratch) before(a, b int32) int {
	return cmp.Or(cmp.Compare(s.scores[b], s.scores[a]), cmp.Compare(a, b))
}

// score adds up what each document has of the terms.
func (x *Index) score(s *scratch) {
	for terms := s.terms; len(terms) > 0; {
		n := 1
		for n < len(terms) && terms[n].instead {
			n++
		}
		x.scoreOne(s, terms[:n])
		terms = terms[n:]
	}
}

// scoreOne adds what each document has of a term, or of one that is looked for instead. A term
// does not count for more because it is looked for instead of one that is less rare.
func (x *Index) scoreOne(s *scratch, terms []queryTerm) {
	s.touched = s.touched[:0]
	var rarity float32
	for i, t := range terms {
		postings := x.of(t.id)
		if postings == nil {
			continue
		}
		r := x.rarity(len(postings))
		if rarity == 0 || i == 0 {
			rarity = r
		}
		r = min(r, rarity) * t.weight
		for _, p := range postings {
			if s.best[p.doc] == 0 {
				s.touched = append(s.touched, p.doc)
			}
			s.best[p.doc] = max(s.best[p.doc], r*p.impact)
		}
	}
	for _, d := range s.touched {
		s.raise(d, s.best[d])
		s.best[d] = 0
	}
}

// narrow leaves the found documents that pass the filters, applies the prior, and returns the
// highest score, or 1.
func (x *Index) narrow(s *scratch, q *Query) float32 {
	wanted := anyAction
	if len(s.terms) > 0 {
		wanted = actionOf(q.Text)
	}
	var highest float32
	kept := s.found[:0]
	for _, d := range s.found {
		doc := x.docs[d]
		if !q.matches(doc) {
			s.scores[d] = 0
			continue
		}
		kept = append(kept, d)
		if wanted != anyAction && wanted == doc.action {
			s.scores[d] *= actionFactor
		}
		if q.Prior != nil {
			if prior := q.Prior(doc); prior > 0 {
				s.scores[d] *= 1 + priorWeight*float32(min(prior, 1))
			}
		}
		highest = max(highest, s.scores[d])
	}
	s.found = kept
	return cmp.Or(highest, 1)
}

// fusion is the constant of reciprocal rank fusion: how little the first ranks differ.
const fusion = 60

// fuse replaces the scores by the sum of the reciprocal ranks in both rankings, and returns the
// highest.
func (x *Index) fuse(s *scratch, q *Query) (highest float32) {
	slices.SortFunc(s.found, s.before)
	for rank, d := range s.found {
		s.scores[d] = 1 / float32(fusion+rank)
	}
	for rank, i := range q.Nearest {
		if i >= 0 && i < len(x.docs) && q.matches(x.docs[i]) {
			s.raise(int32(i), 1/float32(fusion+rank))
		}
	}
	for _, d := range s.found {
		highest = max(highest, s.scores[d])
	}
	return cmp.Or(highest, 1)
}

// named puts documents first whose name is the text of the query, or begins with it.
func (x *Index) named(s *scratch, q *Query, name string, highest float32) {
	if len(name) < minPrefix {
		return
	}
	s.touched = s.touched[:0]
	x.namedIn(s, q, name, highest, x.byKey, (*Doc).fullKey)
	x.namedIn(s, q, name, highest, x.byBare, (*Doc).bareKey)
	for _, d := range s.touched {
		s.raise(d, s.best[d])
		s.best[d] = 0
	}
}

// namedIn notes in best by how much to raise the documents that are named.
func (x *Index) namedIn(s *scratch, q *Query, name string, highest float32, order []int32, key func(*Doc) string) {
	first := sort.Search(len(order), func(i int) bool { return key(x.docs[order[i]]) >= name })
	for _, d := range order[first:] {
		doc := x.docs[d]
		k := key(doc)
		if !strings.HasPrefix(k, name) {
			return
		}
		if !q.matches(doc) {
			continue
		}
		by := highest
		if k == name {
			by *= 2
		}
		if s.best[d] == 0 {
			s.touched = append(s.touched, d)
		}
		s.best[d] = max(s.best[d], by)
	}
}

// fullKey returns the key with the name of the upstream.
func (d *Doc) fullKey() string { return d.key }

// bareKey returns the key without the name of the upstream.
func (d *Doc) bareKey() string { return d.key[d.bare:] }

// page returns the part of the found documents that the query asks for.
func (x *Index) page(s *scratch, q *Query) Page {
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	limit = min(limit, MaxLimit)
	page := Page{Total: len(s.found)}
	if q.Offset < 0 || q.Offset >= page.Total {
		return page
	}
	end := min(q.Offset+limit, page.Total)
	if end < page.Total {
		page.Next = end
	}
	top(s.found, end, s.before)
	page.Hits = make([]Hit, 0, end-q.Offset)
	for _, d := range s.found[q.Offset:end] {
		page.Hits = append(page.Hits, Hit{Doc: x.docs[d], Index: int(d), Score: float64(s.scores[d])})
	}
	return page
}

// top sorts a so that its first n elements are those of the order.
func top(a []int32, n int, order func(a, b int32) int) {
	if len(a) > 4*n {
		// The n best are gathered at the front as a heap whose root is the last of them.
		heap := a[:n]
		for i := n/2 - 1; i >= 0; i-- {
			sink(heap, i, order)
		}
		for i := n; i < len(a); i++ {
			if order(a[i], heap[0]) < 0 {
				a[i], heap[0] = heap[0], a[i]
				sink(heap, 0, order)
			}
		}
		a = heap
	}
	slices.SortFunc(a, order)
}

// sink restores a heap of which element i may come before its children.
func sink(heap []int32, i int, order func(a, b int32) int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && order(heap[child], heap[child+1]) < 0 {
			child++
		}
		if order(heap[i], heap[child]) >= 0 {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
