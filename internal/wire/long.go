package wire

import "bytes"

// Long has the positions of the long strings of one document, so that a [Value] of the
// document skips them without reading them again. A nil Long knows nothing. It is
// immutable.
type Long struct {
	doc   Raw
	spans longSpans // by their start
}

const (
	// longString is the length from which a string is worth remembering.
	longString = 4 << 10
	// mostLong is how many strings of a document are remembered.
	mostLong = 8
)

// longSpans are the first long strings of a text.
type longSpans struct {
	at [mostLong]span
	n  int
}

func (l *longSpans) add(s span) {
	if l.n < mostLong {
		l.at[l.n] = s
		l.n++
	}
}

// of returns the Long of doc, in which the spans are, nil if there are none.
func (l *longSpans) of(doc Raw) *Long {
	if l.n == 0 {
		return nil
	}
	return &Long{doc, *l}
}

// within makes l, which nobody else has, the Long of a part of its document. It returns
// nil if there are no long strings in the part.
func (l *Long) within(part Value) *Long {
	if l == nil {
		return nil
	}
	all := l.spans
	l.doc, l.spans.n = part.Raw(), 0
	for _, s := range all.at[:all.n] {
		if s.start >= part.start && s.end <= part.end {
			l.spans.add(span{s.start - part.start, s.end - part.start})
		}
	}
	if l.spans.n == 0 {
		return nil
	}
	return l
}

// ValueOf is the function [ValueOf] for doc. The value is faster to walk if doc is the
// document that l is about.
func (l *Long) ValueOf(doc Raw) Value {
	v := ValueOf(doc)
	if l != nil && len(doc) == len(l.doc) && len(doc) > 0 && &doc[0] == &l.doc[0] {
		v.long = l
	}
	return v
}

// endAt returns the index after the long string that begins at i, 0 if none does.
func (l *Long) endAt(i int) int {
	for _, s := range l.spans.at[:l.spans.n] {
		if s.start >= i {
			if s.start == i {
				return s.end
			}
			return 0
		}
	}
	return 0
}

// MayContain reports whether the value can contain a string with this part outside of long
// strings. The part must not have characters that need an escape: it stands in the text as
// it is, unless the string is written with \u escapes. The search is the faster, the
// rarer the first character of the part is in text.
func (v Value) MayContain(part string) bool {
	at := v.start
	if v.long != nil {
		for _, s := range v.long.spans.at[:v.long.spans.n] {
			if s.start >= at && s.end <= v.end {
				if mayContain(v.doc[at:s.start], part) {
					return true
				}
				at = s.end
			}
		}
	}
	return mayContain(v.doc[at:v.end], part)
}

func mayContain(text []byte, part string) bool {
	return bytes.Contains(text, []byte(part)) || bytes.Contains(text, []byte(`\u`))
}
