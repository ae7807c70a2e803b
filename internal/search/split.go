package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is how many bytes of a word count.
const maxWord = 48

// class is the role of a character in splitting words.
type class uint8

const (
	separator class = iota
	lower           // a letter; one without case counts as lower
	upper
	digit
	joint // a combining mark or an invisible character: part of the word around it
	dense // a character of a script that has no spaces between words, or few
)

var asciiClasses = func() (t [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case 'a' <= r && r <= 'z':
			t[r] = lower
		case 'A' <= r && r <= 'Z':
			t[r] = upper
		case '0' <= r && r <= '9':
			t[r] = digit
		}
	}
	return t
}()

func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		return asciiClasses[r]
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return joint
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return dense
	case unicode.IsUpper(r), unicode.IsTitle(r):
		return upper
	case unicode.IsLetter(r), unicode.Is(unicode.Mc, r):
		return lower
	case unicode.IsDigit(r):
		return digit
	}
	return separator
}

// wordKind says how a word stands in the text.
type wordKind uint8

const (
	alone wordKind = iota
	part           // of a word such as readFile or base64
	whole          // such a word, after its parts
)

// split calls yield for the words of a text in their order, in lower case.
func split(text string, yield func(word string, kind wordKind)) {
	start, kind := -1, separator // of the run of characters without a separator
	elided := false              // the run follows an apostrophe
	end := func(i int) {
		if start < 0 {
			return
		}
		run := text[start:i]
		start = -1
		switch {
		case kind == dense:
			pairs(run, yield)
		case !elided || len(run) > 2: // the s of it's and the ll of you'll are no words
			parts(run, yield)
		}
		elided = false
	}
	for i, r := range text {
		k := classOf(r)
		switch {
		case k == separator:
			word := start >= 0
			end(i)
			elided = word && (r == '\'' || r == '’')
		case k == joint:
		case start < 0 || (k == dense) != (kind == dense):
			end(i)
			start, kind = i, k
		}
	}
	end(len(text))
}

// parts yields the parts of a word of letters and digits, which begin at a change of case or
// between a letter and a digit, then the whole.
func parts(run string, yield func(word string, kind wordKind)) {
	start, n, yielded := 0, 0, 0
	last := separator
	end := func(i int, kind wordKind) {
		n++
		if p := run[start:i]; len(p) > 1 || kind == alone { // the s and the 3 of s3 say nothing
			yielded++
			yield(fold(p), kind)
		}
		start = i
	}
	previous := 0 // where the last character began
	for i, r := range run {
		k := classOf(r)
		if k == joint {
			continue
		}
		switch {
		case last == separator, last == k && k != upper:
		case k == digit, last == digit, last == lower: // 2d, base64, readFile
			end(i, part)
		case k == lower && i+1 == len(run) && r == 's': // URLs
		case last == upper && k == lower && previous > start: // HTTPServer: the S belongs to what follows
			end(previous, part)
		}
		last, previous = k, i
	}
	switch {
	case n == 0:
		end(len(run), alone)
		return
	default:
		end(len(run), part)
	}
	if len(run) > maxWord {
		return
	}
	if yielded == 0 {
		yield(fold(run), alone)
	} else {
		yield(fold(run), whole)
	}
}

// fold writes a word in lower case without accents. It looks at the beginning of a long word
// only.
func fold(s string) string {
	if len(s) > maxWord {
		s = strings.ToValidUTF8(s[:maxWord], "")
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return strings.Map(func(r rune) rune {
				if classOf(r) == joint {
					return -1
				}
				return r
			}, norm.NFKD.String(strings.ToLower(s)))
		}
	}
	return strings.ToLower(s)
}

// pairs yields each character, and after it the pair that it makes with the one before.
func pairs(run string, yield func(word string, kind wordKind)) {
	n, last := 0, rune(0)
	for _, r := range run {
		if classOf(r) == joint {
			continue
		}
		yield(norm.NFKC.String(string(r)), part)
		if n++; n > 1 {
			yield(norm.NFKC.String(string([]rune{last, r})), whole)
		}
		last = r
	}
}
