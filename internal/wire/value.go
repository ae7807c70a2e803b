package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Raw is the text of one JSON value. A Raw that has passed [Parse], [ParseUpstream]
// or [Check] is valid JSON; the rest of this package relies on that.
type Raw []byte

// Value is a view of one value in a document of valid JSON. The zero Value stands for an
// absent value: its Kind is 0, it has no members and no elements, and all methods may be
// called. Copying a Value costs nothing. It keeps the document alive.
type Value struct {
	doc        []byte
	start, end int
	long       *Long // of doc, nil if it is not known
}

// ValueOf returns the value of doc, which must be valid JSON.
func ValueOf(doc Raw) Value {
	start := skipSpace(doc, 0)
	if start == len(doc) {
		return Value{}
	}
	end := len(doc) // the document is one value, which ends where trailing space begins
	for isSpace(doc[end-1]) {
		end--
	}
	return Value{doc, start, end, nil}
}

// Exists reports whether the value is there.
func (v Value) Exists() bool { return v.doc != nil }

// Raw returns the value's text, nil when absent. It is a slice of the
// document, not a copy.
func (v Value) Raw() Raw {
	if v.doc == nil {
		return nil
	}
	return Raw(v.doc[v.start:v.end:v.end])
}

// Doc returns the document that v is a part of.
func (v Value) Doc() Raw { return v.doc }

// Kind returns '{', '[', '"', '0', 't', 'f', 'n', or 0 when absent. Every
// number has kind '0'.
func (v Value) Kind() byte {
	if v.doc == nil {
		return 0
	}
	switch c := v.doc[v.start]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	default:
		return '0'
	}
}

// Member is one member of an object.
type Member struct {
	Key   Value // the key with its quotes
	Value Value
}

// Is reports whether the member's key is name.
func (m Member) Is(name string) bool { return m.Key.IsString(name) }

// Members iterates over the members of an object in the order of the text. It yields
// nothing if v is not an object.
func (v Value) Members() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		if v.Kind() != '{' {
			return
		}
		i := skipSpace(v.doc, v.start+1)
		for v.doc[i] == '"' {
			key := Value{v.doc, i, v.skipString(i), v.long}
			i = skipSpace(v.doc, key.end)
			i = skipSpace(v.doc, i+1) // the colon
			val := Value{v.doc, i, v.skipValue(i), v.long}
			if !yield(Member{key, val}) {
				return
			}
			i = skipSpace(v.doc, val.end)
			if v.doc[i] == ',' {
				i = skipSpace(v.doc, i+1)
			}
		}
	}
}

// Elements iterates over the elements of an array in order. It yields nothing if v is not
// an array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != '[' {
			return
		}
		i := skipSpace(v.doc, v.start+1)
		for v.doc[i] != ']' {
			el := Value{v.doc, i, v.skipValue(i), v.long}
			if !yield(el) {
				return
			}
			i = skipSpace(v.doc, el.end)
			if v.doc[i] == ',' {
				i = skipSpace(v.doc, i+1)
			}
		}
	}
}

// Get returns the member at the path of keys, the zero Value for none. Of several members
// with one key it returns the first.
func (v Value) Get(path ...string) Value {
	for _, name := range path {
		v = v.get(name)
	}
	return v
}

// get is written out because most of the time of a call in this package is spent here.
func (v Value) get(name string) Value {
	if v.Kind() != '{' {
		return Value{}
	}
	b := v.doc
	i := skipSpace(b, v.start+1)
	for b[i] == '"' {
		end := v.skipString(i)
		is := isText(b[i+1:end-1], name)
		i = skipSpace(b, end)
		i = skipSpace(b, i+1) // the colon
		end = v.skipValue(i)
		if is {
			return Value{b, i, end, v.long}
		}
		i = skipSpace(b, end)
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return Value{}
}

// isText reports whether the text between the quotes of a string, with its escapes, stands for
// s. An escape is longer than what it stands for, but has at most maxEscape bytes for each of it.
func isText(text []byte, s string) bool {
	switch {
	case len(text) < len(s):
		return false
	case len(text) == len(s):
		return string(text) == s && strings.IndexByte(s, '\\') < 0
	case len(text) > maxEscape*len(s), bytes.IndexByte(text, '\\') < 0:
		return false
	default:
		return string(unescape(text)) == s
	}
}

// maxEscape is the length of the escape of one byte, such as \u0041.
const maxEscape = 6

// At returns the value that a JSON Pointer (RFC 6901) names, through members of objects only: v
// itself for "", an absent value if there is none.
func (v Value) At(pointer string) Value {
	if pointer == "" {
		return v
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		v = v.Get(pointerDecoder.Replace(step))
	}
	return v
}

var pointerDecoder = strings.NewReplacer("~1", "/", "~0", "~")

// KindName returns the type of v for a sentence, such as "an array"; "missing" for an absent value.
func (v Value) KindName() string {
	switch v.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	case 0:
		return "missing"
	default:
		return "a boolean"
	}
}

// IsString reports whether v is the string s. It allocates only for text with escapes.
func (v Value) IsString(s string) bool {
	return v.Kind() == '"' && isText(v.doc[v.start+1:v.end-1], s)
}

// Text returns the text of the string v, and whether v is a string. An escaped lone surrogate
// becomes U+FFFD.
func (v Value) Text() (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	return string(v.unquoted()), true
}

// unquoted returns the text of a string: a slice of the document if it has no escapes, else
// a new one.
func (v Value) unquoted() []byte {
	text := v.doc[v.start+1 : v.end-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return unescape(text)
}

// Str returns the text of the string v, "" if v is not a string.
func (v Value) Str() string {
	s, _ := v.Text()
	return s
}

// Int returns the integer v, and whether v is an integer that fits. 1.0 and 1e3 are integers
// too; nothing is rounded.
func (v Value) Int() (int64, bool) {
	if v.Kind() != '0' {
		return 0, false
	}
	text := string(v.doc[v.start:v.end])
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	shift := 0 // the power of ten beside the digits
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		shift, _ = strconv.Atoi(text[i+1:]) // a value out of range is the nearest int, which is too large even if the sum below overflows
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	shift += len(whole) - len(digits)
	switch {
	case digits == "" || digits == "-":
		return 0, true
	case shift < 0 || shift > 18: // a fraction is left, or over 10^18
		return 0, false
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", shift), 10, 64)
	return n, err == nil
}

// Bool returns whether v is true.
func (v Value) Bool() bool { return v.Kind() == 't' }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i.
func (v Value) skipString(i int) int {
	if v.long != nil {
		if end := v.long.endAt(i); end > 0 {
			return end
		}
	}
	b := v.doc
	i++
	// Most strings are short: looking for their end by words costs less than a call.
	for end := i + shortText; i < end && i+8 <= len(b); i += 8 {
		if found := special(binary.LittleEndian.Uint64(b[i:])); found != 0 {
			if i += bits.TrailingZeros64(found) / 8; b[i] == '"' {
				return i + 1
			}
			break // at an escape
		}
	}
	for ; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// shortText is the length of the beginning of a string that skipString looks at by words.
const shortText = 48

// skipValue returns the index after the value that begins at i.
func (v Value) skipValue(i int) int {
	b := v.doc
	switch b[i] {
	case '"':
		return v.skipString(i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = v.skipString(i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				if depth == 0 {
					return i + 1
				}
			}
			i++
		}
	default:
		for i < len(b) {
			switch b[i] {
			case ',', '}', ']', ' ', '\n', '\t', '\r':
				return i
			}
			i++
		}
		return i
	}
}

// unescape returns the text of a JSON string without its quotes.
func unescape(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(s[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+6 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
					low = hex4(s[i+3:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default: // " \ /
			out = append(out, s[i])
		}
	}
	return out
}

func hex4(s []byte) rune {
	n, err := strconv.ParseUint(string(s[:4]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
