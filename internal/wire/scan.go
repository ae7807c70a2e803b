package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/segmentio/asm/ascii"
)

// scanner accepts valid JSON several times faster than a tokenizer, because it looks at
// eight bytes of a string at once. JSON that it does not accept may still be valid:
// [Check] then asks the library, which also knows the reason for an error. So the
// scanner may give up on text that is rare, such as names with escapes.
type scanner struct {
	b     []byte
	depth int // the bound

	level   int                    // of nesting
	objects [scanDepth / 64]uint64 // a bit for each level, set for an object

	strict bool // names are compared
	open   int  // objects that are open
	begin  [scanObjects]uint8
	names  [scanNames]span // of the members of all open objects; those of object i begin at begin[i]
	n      int             // of names

	long longSpans
}

const (
	// scanDepth bounds the levels of nesting that a scanner follows.
	scanDepth = 1024
	// scanObjects and scanNames bound the open objects of a strict scanner and their
	// members.
	scanObjects, scanNames = 32, 64
)

// span is the text from start to end.
type span struct{ start, end int }

// accepts reports whether data passes [Check] for sure, and where its long strings are.
func accepts(data []byte, depth int, strictness Strictness) (bool, longSpans) {
	s := scanner{b: data, depth: min(depth, scanDepth), strict: strictness == Strict}
	return s.document(), s.long
}

// document reads the whole text.
func (s *scanner) document() bool {
	b := s.b
	for i := skipSpace(b, 0); ; {
		if i == len(b) {
			return false
		}
		switch c := b[i]; c {
		case '"':
			start := i
			if i = endOfString(b, i+1); i-start >= longString {
				s.long.add(span{start, i})
			}
		case '{', '[':
			if !s.push(c == '{') {
				return false
			}
			i = skipSpace(b, i+1)
			switch {
			case i < len(b) && b[i] == c+2: // in ASCII the brackets of a pair are two apart
			case c == '[':
				continue
			default:
				if i = s.name(i); i < 0 {
					return false
				}
				continue
			}
		default:
			i = endOfScalar(b, i)
		}
		if i < 0 {
			return false
		}
		if i = s.afterValue(i); i < 0 {
			return false
		}
		if s.level == 0 {
			return i == len(b)
		}
	}
}

// afterValue reads the text after a value: the ends of objects and arrays, and what
// comes before the next value. It returns the index of the next value, or of the end of
// the text if no level is open, or -1.
func (s *scanner) afterValue(i int) int {
	for {
		i = skipSpace(s.b, i)
		if s.level == 0 {
			return i
		}
		if i == len(s.b) {
			return -1
		}
		object := s.inObject()
		switch c := s.b[i]; {
		case c == ',' && object:
			return s.name(skipSpace(s.b, i+1))
		case c == ',':
			return skipSpace(s.b, i+1)
		case c == '}' && object, c == ']' && !object:
			s.pop(object)
			i++
		default:
			return -1
		}
	}
}

// push opens an object or an array.
func (s *scanner) push(object bool) bool {
	if s.level == s.depth {
		return false
	}
	word, bit := s.level/64, uint64(1)<<(s.level%64)
	s.level++
	if !object {
		s.objects[word] &^= bit
		return true
	}
	s.objects[word] |= bit
	if !s.strict {
		return true
	}
	if s.open == scanObjects {
		return false
	}
	s.begin[s.open] = uint8(s.n)
	s.open++
	return true
}

func (s *scanner) pop(object bool) {
	s.level--
	if object && s.strict {
		s.open--
		s.n = int(s.begin[s.open])
	}
}

// inObject reports whether the innermost open level is an object.
func (s *scanner) inObject() bool {
	at := s.level - 1
	return s.objects[at/64]>>(at%64)&1 != 0
}

// name reads the name of a member and the colon. It returns the index of the value, or
// -1.
func (s *scanner) name(i int) int {
	if i == len(s.b) || s.b[i] != '"' {
		return -1
	}
	start := i + 1
	if i = endOfString(s.b, start); i < 0 {
		return -1
	}
	if s.strict && !s.isNew(span{start, i - 1}) {
		return -1
	}
	if i = skipSpace(s.b, i); i == len(s.b) || s.b[i] != ':' {
		return -1
	}
	return skipSpace(s.b, i+1)
}

// isNew remembers the name of a member, and reports whether the object has no other of
// that name.
func (s *scanner) isNew(name span) bool {
	text := s.b[name.start:name.end]
	if s.n == scanNames || bytes.IndexByte(text, '\\') >= 0 {
		return false
	}
	for _, other := range s.names[s.begin[s.open-1]:s.n] {
		if bytes.Equal(s.b[other.start:other.end], text) {
			return false
		}
	}
	s.names[s.n] = name
	s.n++
	return true
}

// Words with one value in each byte.
const (
	each01 = 0x0101010101010101
	each02 = each01 * 0x02
	each21 = each01 * 0x21
	each5c = each01 * '\\'
	each80 = each01 * 0x80
)

// special returns a word that has the high bit of each byte of x that cannot stand in a
// string as it is: a control character, a quote or a backslash. The lowest bit is exact;
// later ones may be wrong.
func special(x uint64) uint64 { return marks(x) & each80 }

// marks is special with other bits that mean nothing.
func marks(x uint64) uint64 {
	// Flipping the bit 2 exchanges the quote with the space, so that one comparison finds
	// quotes and control characters. A byte borrows from the next one only if it is found
	// itself.
	return (((x ^ each02) - each21) | ((x ^ each5c) - each01)) &^ x
}

// printable returns how many bytes at the beginning of b are printable ASCII without a quote
// or a backslash. There may be more of them: it looks with vector instructions at a window
// of the text after the other, and ends at one that has other bytes too.
func printable(b []byte) (n int) {
	const window = 4 << 10 // so that a few bytes found cost little
	for n < len(b) {
		text := b[n:min(n+window, len(b))]
		end := len(text)
		for _, c := range []byte{'"', '\\'} {
			if at := bytes.IndexByte(text[:end], c); at >= 0 {
				end = at
			}
		}
		if !ascii.ValidPrint(text[:end]) {
			return n
		}
		if n += end; end < len(text) {
			return n
		}
	}
	return n
}

// fewClean is after how many words without anything special a string counts as plain text,
// of which four words are looked at together. After longRun bytes of plain ASCII the rest
// probably is of that kind, too.
const fewClean, longRun = 4, 512

// endOfString returns the index after the string whose text begins at i, or -1 if the
// string is not valid.
func endOfString(b []byte, i int) int {
	start, long := i, i+longRun
	high := uint64(0) // has a high bit if there is a byte that is not ASCII
	for {
		for ; i+32 <= len(b); i += 32 {
			if i >= long && high&each80 == 0 {
				i += printable(b[i:])
				long = i + longRun
				if i+32 > len(b) {
					break
				}
			}
			four := (*[32]byte)(b[i:])
			w0, w1 := binary.LittleEndian.Uint64(four[:]), binary.LittleEndian.Uint64(four[8:])
			w2, w3 := binary.LittleEndian.Uint64(four[16:]), binary.LittleEndian.Uint64(four[24:])
			if (marks(w0)|marks(w1)|marks(w2)|marks(w3))&each80 != 0 {
				break
			}
			high |= w0 | w1 | w2 | w3
		}
		clean := 0
		for i+8 <= len(b) && clean < fewClean {
			w := binary.LittleEndian.Uint64(b[i:])
			found := special(w)
			if found == 0 {
				high |= w
				i += 8
				clean++
				continue
			}
			n := bits.TrailingZeros64(found)
			high |= w & (1<<n - 1)
			if i += n / 8; i+1 >= len(b) || b[i] != '\\' || !shortEscape[b[i+1]] {
				break
			}
			i += 2 // source code has an escape in every second word
			clean = 0
		}
		if clean == fewClean {
			continue
		}
		for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
			high |= uint64(b[i])
			i++
		}
		if i == len(b) {
			return -1
		}
		if b[i] == '"' {
			if high&each80 != 0 && !utf8.Valid(b[start:i]) {
				return -1
			}
			return i + 1
		}
		if i = endOfEscape(b, i); i < 0 {
			return -1
		}
	}
}

// shortEscape has the characters after a backslash that are an escape with it.
var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// hexDigit has the digits of \u escapes.
var hexDigit = func() (t [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		t[c] = true
	}
	return t
}()

// endOfEscape returns the index after the escape at i, or -1 if there is no valid one.
func endOfEscape(b []byte, i int) int {
	switch {
	case i+1 >= len(b) || b[i] != '\\':
		return -1
	case shortEscape[b[i+1]]:
		return i + 2
	case b[i+1] == 'u' && i+6 <= len(b) && hexDigit[b[i+2]] && hexDigit[b[i+3]] && hexDigit[b[i+4]] && hexDigit[b[i+5]]:
		return i + 6
	}
	return -1
}

// endOfScalar returns the index after the number or the word that begins at i, or -1.
func endOfScalar(b []byte, i int) int {
	for _, word := range []string{"true", "false", "null"} {
		if b[i] == word[0] {
			if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
				return i + len(word)
			}
			return -1
		}
	}
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = endOfDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = endOfDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return endOfDigits(b, i)
	}
	return i
}

// endOfDigits returns the index after one or more digits, or -1.
func endOfDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
