package search

import (
	"hash/maphash"
	"strings"

	"mcpgateway/internal/plaintext"
)

// field is a part of a tool in which a word can be.
type field uint8

const (
	inName field = iota
	inTitle
	inSummary // the first sentence of the description
	inDescription
	inParam
	inParamDescription
	inUpstream
	inTags
	fields
)

// The bounds on what counts of a tool, in bytes of text.
const (
	maxName        = 256
	maxTitle       = 512
	maxDescription = 16 << 10 // also of all parameters together
	maxTags        = 32
	maxTerms       = 2048 // different words

	minSentence = 20 // a shorter one is a heading or ends in an abbreviation
)

// Doc has the data about a tool that an index needs.
type Doc struct {
	name, upstream string
	hints          Hints
	action         action

	terms   []docTerm // in the order of their first use
	lengths [fields]uint16
	// words are the stems in name and title, which queries may misspell.
	words []string
	// key is the name as words with a space between them. From bare on it is without the
	// name of the upstream.
	key  string
	bare int
}

// docTerm says how often a term is in each field.
type docTerm struct {
	id    termID
	count [fields]uint8
}

// termID identifies a term in this process. 64 bits of a keyed hash are unique enough, and
// need less memory than texts.
type termID uint64

var seed = maphash.MakeSeed()

func idOf(term string) termID { return termID(maphash.String(seed, term)) }

// Name returns the name of the tool.
func (d *Doc) Name() string { return d.name }

// Upstream returns the name of the tool's server.
func (d *Doc) Upstream() string { return d.upstream }

// Analyze makes the document of a tool. It looks at bounded beginnings of the texts.
func Analyze(t Tool) *Doc {
	a := analyzer{doc: &Doc{name: t.Name, upstream: t.Upstream, hints: t.Hints}, at: make(map[termID]int, 64)}
	bare := withoutUpstream(t.Name, t.Upstream)
	a.text(inName, bare, maxName)
	a.doc.action = actionOf(plaintext.Truncate(bare, maxName))
	a.compounds(bare)
	a.text(inTitle, t.Title, maxTitle)
	a.doc.words = strings.Fields(a.words.String())
	summary := firstSentence(t.Description)
	a.text(inSummary, summary, maxTitle)
	a.text(inDescription, t.Description[len(summary):], maxDescription)
	left := maxDescription
	for i, p := range t.Params {
		if i == maxParams || left <= 0 {
			break
		}
		left -= a.text(inParam, p.Name, min(left, maxName))
		left -= a.text(inParamDescription, p.Description, left)
	}
	a.text(inUpstream, t.Upstream, maxName)
	for i, tag := range t.Tags {
		if i == maxTags {
			break
		}
		a.text(inTags, tag, maxName)
	}
	a.doc.key = keyOf(bare)
	if bare != t.Name {
		lead := keyOf(t.Upstream) + " "
		a.doc.key, a.doc.bare = lead+a.doc.key, len(lead)
	}
	a.doc.terms = append(make([]docTerm, 0, len(a.doc.terms)), a.doc.terms...) // kept for long: no room to grow
	return a.doc
}

// withoutUpstream returns a name without the name of its server and what joins them. Servers
// often begin their names with it, and so does the gateway.
func withoutUpstream(name, upstream string) string {
	for upstream != "" && len(name) > len(upstream) && strings.EqualFold(name[:len(upstream)], upstream) {
		rest := name[len(upstream):]
		bare := strings.TrimLeft(rest, "_-./: ")
		if bare == "" || bare == rest {
			break
		}
		name = bare
	}
	return name
}

// firstSentence returns the beginning of a text that says what it is about.
func firstSentence(text string) string {
	text = plaintext.Truncate(text, maxTitle)
	start := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	for i := start + minSentence; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n', (c == ' ' || c == '\t') && strings.IndexByte(".!?:;", text[i-1]) >= 0:
			return text[:i]
		}
	}
	return text
}

// keyOf returns the words of a name or of a query with a space between them.
func keyOf(text string) string {
	var b strings.Builder
	split(plaintext.Truncate(text, maxName), func(word string, kind wordKind) {
		if kind == whole {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	})
	return b.String()
}

// analyzer is the state of Analyze.
type analyzer struct {
	stemmer
	doc   *Doc
	at    map[termID]int // index in doc.terms
	words strings.Builder
}

// text adds the terms of a text to a field. It returns how many bytes it looked at.
func (a *analyzer) text(f field, text string, limit int) int {
	text = plaintext.Truncate(text, limit)
	a.terms(text, f != inName && f != inParam, func(term string, kind wordKind) {
		a.add(f, term)
		if kind != whole && a.doc.lengths[f] < 1<<16-1 {
			a.doc.lengths[f]++
		}
		if f <= inTitle {
			a.words.WriteString(term)
			a.words.WriteByte(' ')
		}
	})
	return len(text)
}

func (a *analyzer) add(f field, term string) {
	id := idOf(term)
	i, ok := a.at[id]
	if !ok {
		if i = len(a.doc.terms); i == maxTerms {
			return
		}
		a.at[id] = i
		a.doc.terms = append(a.doc.terms, docTerm{id: id})
	}
	if n := &a.doc.terms[i].count[f]; *n < 255 {
		*n++
	}
}

// compounds adds two words of a name that stand side by side as one, so that webhook finds
// web_hook.
func (a *analyzer) compounds(name string) {
	before := ""
	split(plaintext.Truncate(name, maxName), func(word string, kind wordKind) {
		if kind == whole {
			return
		}
		if before != "" && len(before)+len(word) <= maxWord {
			a.add(inName, a.stem(before+word))
		}
		before = word
	})
}
