package policy

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// unreadable reports whether there is something in the parts, at this level of
// encoding, that readers understand in ways too many to judge.
func (p *parts) unreadable() bool {
	return strings.ContainsFunc(p.path, unicode.IsControl) || strings.ContainsFunc(p.authority, unicode.IsControl) ||
		strings.Contains(p.tail, "\x00") || overlong(p.path) || overlong(p.tail) ||
		unicodeEscape(p.path) || unicodeEscape(p.tail) || !ascii(p.authority) || special[p.scheme] && strings.Contains(p.authority, " ")
}

// overlong reports whether s has bytes that begin a character in more of them than
// it needs, which UTF-8 forbids and some decoders take.
func overlong(s string) bool {
	if ascii(s) {
		return false
	}
	for i := range len(s) {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		if next < 0x80 || next > 0xbf {
			if s[i] == 0xc0 || s[i] == 0xc1 {
				return true
			}
			continue
		}
		switch c := s[i]; {
		case c == 0xc0, c == 0xc1, c == 0xe0 && next < 0xa0, c == 0xf0 && next < 0x90, c == 0xf8 && next < 0x88, c == 0xfc && next < 0x84:
			return true
		}
	}
	return false
}

// unicodeEscape reports whether s has a character encoded as %uXXXX, which no
// standard knows and some servers take.
func unicodeEscape(s string) bool {
	for {
		_, after, found := strings.Cut(s, "%")
		if !found {
			return false
		}
		s = after
		if len(s) >= 5 && s[0]|0x20 == 'u' && hexDigit(s[1]) >= 0 && hexDigit(s[2]) >= 0 && hexDigit(s[3]) >= 0 && hexDigit(s[4]) >= 0 {
			return true
		}
	}
}

// carelessly returns a decoded path as file systems and libraries may take it: what
// is not seen is dropped, compatibility characters are the plain ones, and a segment
// ends before its parameters and its stream (file::$DATA), without the dots and spaces
// at its end. Dot segments stay.
func carelessly(path string) string {
	segments := strings.Split(strings.ReplaceAll(plainLetters(path), `\`, "/"), "/")
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";")
		s, _, _ = strings.Cut(s, "::$")
		if s = strings.TrimRight(s, " "); s != "." && s != ".." {
			s = strings.TrimRight(s, ". ")
		}
		segments[i] = s
	}
	return strings.Join(segments, "/")
}

// fold returns text as readers have it that do not tell letters of two cases apart,
// nor compatibility characters from the plain ones.
func fold(s string) string {
	if !ascii(s) { // some letters have a lower case only by way of the upper one, as the dotless i
		s = strings.ToUpper(sharp.Replace(plainLetters(s)))
	}
	return strings.ToLower(s)
}

// sharp has the letter that is two where cases are folded by the whole of Unicode.
var sharp = strings.NewReplacer("\u00df", "ss", "\u1e9e", "ss")

// slashes are characters that code pages of Windows have no place for, and put the
// nearest in; in those of Japan and Korea the signs of their money are backslashes.
var slashes = strings.NewReplacer("\u2044", "/", "\u2215", "/", "\u2216", `\`, "\u00a5", `\`, "\u20a9", `\`)

// plainLetters drops what is not seen and puts plain characters for those that are
// the same by compatibility (NFKC), or taken for it.
func plainLetters(s string) string {
	if ascii(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "")
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, s)
	return norm.NFKC.String(slashes.Replace(s))
}
