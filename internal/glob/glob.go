package glob

import (
	"strings"
	"unicode/utf8"
)

// Glob is a compiled pattern: the literal parts between its asterisks. A pattern without
// an asterisk has one part. It is immutable.
type Glob struct{ parts []string }

// Compile compiles a pattern. Every text is a pattern.
func Compile(pattern string) Glob { return Glob{strings.Split(pattern, "*")} }

// String returns the pattern.
func (g Glob) String() string { return strings.Join(g.parts, "*") }

// Match reports whether the pattern covers the whole of s. The leftmost place is taken
// for each part; that is enough because only asterisks stand between parts.
func (g Glob) Match(s string) bool {
	last := len(g.parts) - 1
	if last == 0 {
		return s == g.parts[0]
	}
	rest, ok := g.matchHead(s)
	return ok && strings.HasSuffix(rest, g.parts[last])
}

// MatchBefore reports whether the pattern covers the whole of s, or the part of s before
// one of the delimiters.
func (g Glob) MatchBefore(s, delimiters string) bool {
	last := len(g.parts) - 1
	final := g.parts[last]
	ends := func(rest string) bool { return rest == "" || strings.IndexByte(delimiters, rest[0]) >= 0 }
	if last == 0 {
		rest, ok := strings.CutPrefix(s, final)
		return ok && ends(rest)
	}
	rest, ok := g.matchHead(s)
	if !ok || final == "" {
		return ok
	}
	for {
		i := strings.Index(rest, final)
		if i < 0 {
			return false
		}
		if ends(rest[i+len(final):]) {
			return true
		}
		rest = rest[i+1:]
	}
}

// matchHead matches all parts but the last and returns what follows them.
func (g Glob) matchHead(s string) (rest string, ok bool) {
	s, ok = strings.CutPrefix(s, g.parts[0])
	for _, part := range g.parts[1 : len(g.parts)-1] {
		if !ok {
			break
		}
		_, s, ok = strings.Cut(s, part)
	}
	return s, ok
}

// MatchesAll reports whether the pattern covers every text.
func (g Glob) MatchesAll() bool {
	for _, part := range g.parts {
		if part != "" {
			return false
		}
	}
	return len(g.parts) > 1
}

// CanBegin reports whether the pattern covers any text that begins with lead.
func (g Glob) CanBegin(lead string) bool {
	first := g.parts[0]
	return strings.HasPrefix(first, lead) || len(g.parts) > 1 && strings.HasPrefix(lead, first)
}

// CanBeginFolded is CanBegin for folded texts, as policy folds URIs. It may return true for
// a pattern that covers no such text, if the pattern has characters that fold into others.
func (g Glob) CanBeginFolded(lead string) bool {
	first := g.parts[0]
	if strings.ContainsFunc(first, func(r rune) bool { return r == '%' || r == ' ' || r >= utf8.RuneSelf }) {
		return true
	}
	n := min(len(first), len(lead))
	return strings.EqualFold(first[:n], lead[:n]) && (n == len(lead) || len(g.parts) > 1)
}

// Map returns the pattern with each literal part replaced by f of it. Asterisks in what
// f returns are literal.
func (g Glob) Map(f func(part string, last bool) string) Glob {
	parts := make([]string, len(g.parts))
	for i, part := range g.parts {
		parts[i] = f(part, i == len(g.parts)-1)
	}
	return Glob{parts}
}
