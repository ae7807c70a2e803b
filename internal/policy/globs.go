package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mcpgateway/internal/glob"
)

// globs are the patterns of one list. Names are compared byte for byte. URIs are compared
// byte for byte if a match allows, and in their folded forms if it denies, confirms or
// counts.
type globs struct {
	written []glob.Glob
	folded  []uriGlob // of URIs alone
}

// uriGlob is a folded pattern of URIs. One that ends in a slash also covers the URI
// without it.
type uriGlob struct {
	glob.Glob
	bare glob.Glob // without the slash at its end
	dir  bool      // there is one
}

// candidate is a name or URI that globs are matched with. The folded form is computed once.
type candidate struct{ written, folded string }

func candidateOf(s string, isURI bool) candidate {
	if !isURI {
		return candidate{s, ""}
	}
	return candidate{s, fold(s)}
}

func compileNames(patterns []string) globs {
	var g globs
	for _, p := range patterns {
		g.written = append(g.written, glob.Compile(p))
	}
	return g
}

func compileURIs(patterns []string) globs {
	g := compileNames(patterns)
	for _, w := range g.written {
		u := uriGlob{Glob: w.Map(foldPart)}
		u.bare = u.Map(func(part string, last bool) string {
			if last {
				part, u.dir = strings.CutSuffix(part, "/")
			}
			return part
		})
		g.folded = append(g.folded, u)
	}
	return g
}

// allows reports whether the patterns cover s, for a list whose matches allow.
func (g *globs) allows(s candidate) bool {
	for _, w := range g.written {
		if w.Match(s.written) {
			return true
		}
	}
	return false
}

// restricts reports whether the patterns cover s, for a list whose matches restrict. A
// pattern then ignores the case of a URI, and covers it followed by a path, a query or
// parameters.
func (g *globs) restricts(s candidate) bool {
	if g.folded == nil {
		return g.allows(s)
	}
	for _, w := range g.folded {
		if w.covers(s.folded) {
			return true
		}
	}
	return false
}

const uriDelimiters = "/?;"

func (g uriGlob) covers(folded string) bool {
	return g.MatchBefore(folded, uriDelimiters) || g.dir && g.bare.MatchBefore(strings.TrimSuffix(folded, "/"), "?;")
}

func (g *globs) canBegin(lead string) bool {
	for _, w := range g.written {
		if w.CanBegin(lead) {
			return true
		}
	}
	return false
}

// canRestrict reports whether the patterns may restrict a name that begins with one of the
// leads.
func (g *globs) canRestrict(leads []string) bool {
	for _, w := range g.written {
		for _, lead := range leads {
			if w.CanBegin(lead) || g.folded != nil && w.CanBeginFolded(lead) {
				return true
			}
		}
	}
	return false
}

func (g *globs) matchesAll() bool {
	for _, w := range g.written {
		if w.MatchesAll() {
			return true
		}
	}
	return false
}

// foldPart folds a literal part of a pattern. An escape that the asterisk behind it cuts
// off is left out, which makes the pattern cover more.
func foldPart(part string, last bool) string {
	if i := strings.LastIndexByte(part, '%'); !last && i >= 0 && i >= len(part)-2 {
		part = part[:i]
	}
	return fold(part)
}

// fold returns a URI without what servers may not tell apart: percent-encoding, upper and
// lower case, the plus sign and the space, and characters that are the same by
// compatibility (NFKD). Each part of a pattern can be folded by itself.
func fold(s string) string {
	if isFolded(s) {
		return s
	}
	ascii := true
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) && hexDigits[s[i+1]] > 0 && hexDigits[s[i+2]] > 0 {
			c = (hexDigits[s[i+1]]-1)<<4 | (hexDigits[s[i+2]] - 1)
			i += 2
		}
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '+':
			c = ' '
		}
		ascii = ascii && c < 0x80
		b = append(b, c)
	}
	if ascii {
		return string(b)
	}
	return string(foldRunes(norm.NFKD.Bytes(b)))
}

// foldRunes returns decomposed text without the difference of upper and lower case. The
// sharp s is two letters where Unicode folds case.
func foldRunes(s []byte) []byte {
	out := make([]byte, 0, len(s)+2)
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		switch {
		case r == utf8.RuneError || r < utf8.RuneSelf && (r < 'A' || 'Z' < r):
			out = append(out, s[:size]...)
		case r == 0xdf || r == 0x1e9e:
			out = append(out, "ss"...)
		default: // the dotless i and others have a lower case only by way of the upper one
			out = utf8.AppendRune(out, unicode.ToLower(unicode.ToUpper(r)))
		}
		s = s[size:]
	}
	return out
}

// isFolded reports whether fold would change nothing.
func isFolded(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x80 || c == '%' || c == '+' || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

// hexDigits are the values of hexadecimal digits, plus one.
var hexDigits = func() (d [256]byte) {
	const digits = "0123456789abcdef"
	for i := range len(digits) {
		d[digits[i]], d[strings.ToUpper(digits)[i]] = byte(i+1), byte(i+1)
	}
	return d
}()
