package wire

import (
	"bytes"
	"unicode/utf8"
)

// Bounds of the values whose canonical form appendCanonical makes.
const (
	maxPlainSize    = 4 << 10 // bytes
	maxPlainDepth   = 4       // each level reads the value once more
	maxPlainMembers = 16      // of an object
)

// appendCanonical appends the canonical form of a plain value: one whose strings have no
// escapes, whose keys are ASCII, and whose numbers are integers. Only the white space and the
// order of its members may change. It reports false for other values, after it has appended
// some part.
func appendCanonical(b []byte, v Value, depth int) ([]byte, bool) {
	if depth == 0 {
		return b, false
	}
	raw := v.Raw()
	switch v.Kind() {
	case '{':
		return appendCanonicalObject(b, v, depth-1)
	case '[':
		b = append(b, '[')
		first, ok := true, true
		for el := range v.Elements() {
			if !first {
				b = append(b, ',')
			}
			first = false
			if b, ok = appendCanonical(b, el, depth-1); !ok {
				return b, false
			}
		}
		return append(b, ']'), true
	case '"':
		return append(b, raw...), bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw)
	case '0':
		return append(b, raw...), isPlainInteger(raw)
	case 0:
		return b, false
	default:
		return append(b, raw...), true
	}
}

// plainMember has the offsets of a member in its document.
type plainMember struct{ key, keyEnd, value, valueEnd int }

func appendCanonicalObject(b []byte, v Value, depth int) ([]byte, bool) {
	var room [maxPlainMembers]plainMember
	members := room[:0]
	key := func(m *plainMember) []byte { return v.doc[m.key+1 : m.keyEnd-1] }
	for m := range v.Members() {
		if len(members) == len(room) || !isPlainKey(m.Key.Raw()) {
			return b, false
		}
		next := plainMember{m.Key.start, m.Key.end, m.Value.start, m.Value.end}
		members = append(members, next)
		i := len(members) - 1
		for ; i > 0; i-- { // few members, often in order
			order := bytes.Compare(key(&members[i-1]), key(&next))
			if order == 0 {
				return b, false
			}
			if order < 0 {
				break
			}
			members[i] = members[i-1]
		}
		members[i] = next
	}
	b = append(b, '{')
	ok := true
	for i := range members {
		m := &members[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, v.doc[m.key:m.keyEnd]...), ':')
		if b, ok = appendCanonical(b, Value{v.doc, m.value, m.valueEnd, v.long}, depth); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

// isPlainKey reports whether a key, with its quotes, is ASCII without escapes: the order of
// such keys is that of their bytes.
func isPlainKey(raw Raw) bool {
	for _, c := range raw {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isPlainInteger reports whether a number has digits alone, and is not -0.
func isPlainInteger(raw Raw) bool {
	digits := bytes.TrimPrefix(raw, []byte{'-'})
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) == len(raw) || digits[0] != '0'
}
