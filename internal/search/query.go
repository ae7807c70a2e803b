package search

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// The bounds on the words of a query.
const (
	maxQuery        = 4 << 10 // bytes of its text
	maxQueryWords   = 48
	maxQueryTerms   = 480 // words, and those that are looked for instead of them
	maxUnknown      = 8   // words for which known ones that look alike are searched
	maxAlternatives = 3   // such words for one
	minMisspelled   = 4   // bytes of a word that may be misspelled
)

// How much a word that is found instead of one of the query counts.
const (
	similarWeight   = 0.6
	lookalikeWeight = 0.7
	compoundWeight  = 0.8
	partWeight      = 0.3 // of the parts of a word that is known as a whole
)

// queryTerm is a word that is looked for.
type queryTerm struct {
	id     termID
	weight float32
	// instead says that the term is an alternative to the last term for which this is false. A
	// document gets only the alternative with the highest score.
	instead bool
}

// parse reads the words of a query.
func (x *Index) parse(s *scratch, text string) {
	s.terms, s.words = s.terms[:0], 0
	unknown, first := 0, 0 // the first term of a word with parts
	before := alone
	s.stemmer.terms(text, true, func(term string, kind wordKind) {
		id := idOf(term)
		_, known := x.terms[id]
		switch {
		case kind == part && before != part:
			first = len(s.terms)
		case kind == whole && before == part && known: // GitHub means github, not git and hub
			for i := range s.terms[first:] {
				s.terms[first+i].weight *= partWeight
			}
		}
		before = kind
		if !s.want(id, 1, false) {
			return
		}
		for _, other := range similar[term] {
			s.want(idOf(other), similarWeight, true)
		}
		x.serversLike(s, term)
		if !known && unknown < maxUnknown && len(term) >= minMisspelled && term[0] < utf8.RuneSelf {
			unknown++
			x.lookalikes(s, term)
		}
	})
	x.compounds(s, text)
}

// compounds adds two words that stand side by side as one, if a document has them so.
func (x *Index) compounds(s *scratch, text string) {
	before := ""
	split(text, func(word string, kind wordKind) {
		if kind == whole {
			return
		}
		if stopWords[word] {
			before = ""
			return
		}
		if before != "" && len(before)+len(word) <= maxWord {
			if id := idOf(s.stemmer.stem(before + word)); x.of(id) != nil {
				s.want(id, compoundWeight, false)
			}
		}
		before = word
	})
}

// want adds a term unless the query has it already or has too many.
func (s *scratch) want(id termID, weight float32, instead bool) bool {
	if len(s.terms) == maxQueryTerms || !instead && s.words == maxQueryWords {
		return false
	}
	if !instead {
		if slices.ContainsFunc(s.terms, func(t queryTerm) bool { return t.id == id && !t.instead }) {
			return false
		}
		s.words++
	}
	s.terms = append(s.terms, queryTerm{id, weight, instead})
	return true
}

// serversLike adds the names of servers that a word begins: mongo means mongodb.
func (x *Index) serversLike(s *scratch, term string) {
	if len(term) < minMisspelled {
		return
	}
	n := 0
	for i := sort.SearchStrings(x.servers, term); i < len(x.servers) && n < maxAlternatives && strings.HasPrefix(x.servers[i], term); i++ {
		if x.servers[i] != term {
			n++
			s.want(idOf(s.stemmer.stem(x.servers[i])), lookalikeWeight, true)
		}
	}
}

// lookalikes adds words of names and titles instead of one that no document has: those that it
// begins, and those that differ by one letter.
func (x *Index) lookalikes(s *scratch, term string) {
	n := 0
	for i := sort.SearchStrings(x.words, term); i < len(x.words) && n < maxAlternatives && strings.HasPrefix(x.words[i], term); i++ {
		n++
		s.want(idOf(x.words[i]), lookalikeWeight, true)
	}
	for _, w := range x.words {
		if n < maxAlternatives && oneApart(term, w) {
			n++
			s.want(idOf(w), lookalikeWeight, true)
		}
	}
}

// oneApart reports whether one byte that is added, left out or replaced, or two neighbors that
// are exchanged, make a of b. Equal texts are not one apart.
func oneApart(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 || len(b) < minMisspelled-1 {
		return false
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	switch {
	case len(a) > len(b):
		return a[i+1:] == b[i:]
	case i == len(a):
		return false
	case a[i+1:] == b[i+1:]:
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}
