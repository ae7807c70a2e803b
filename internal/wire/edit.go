package wire

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit collects changes to values of one document and applies them together. All other bytes
// of the document stay. The zero Edit is not usable; use [NewEdit]. An Edit belongs to one
// goroutine.
type Edit struct {
	doc  []byte
	cuts []cut
}

type cut struct {
	start, end int
	with       []byte
}

// NewEdit begins an edit of doc, which must be valid JSON and is not changed.
func NewEdit(doc Raw) *Edit { return &Edit{doc: doc} }

// Root returns the document's value.
func (e *Edit) Root() Value { return ValueOf(e.doc) }

// Replace puts with, valid JSON, in the place of v. The values that one Edit changes must
// not overlap. If v is absent nothing happens.
func (e *Edit) Replace(v Value, with Raw) {
	if !v.Exists() {
		return
	}
	e.cuts = append(e.cuts, cut{v.start, v.end, with})
}

// ReplaceString puts the string s in the place of v.
func (e *Edit) ReplaceString(v Value, s string) { e.Replace(v, AppendString(nil, s)) }

// Add appends a member to the object obj, which must not have a member of that name. If obj
// is not an object nothing happens, so that a peer that sends a string in the place of an
// object cannot make an edit break the document.
func (e *Edit) Add(obj Value, name string, value Raw) {
	if obj.Kind() != '{' {
		return
	}
	with := make([]byte, 0, len(name)+len(value)+4)
	empty := obj.doc[skipSpace(obj.doc, obj.start+1)] == '}'
	before := func(c cut) bool { return c.start == obj.end-1 && c.end == c.start } // added to the same object
	if !empty || slices.ContainsFunc(e.cuts, before) {
		with = append(with, ',')
	}
	with = AppendString(with, name)
	with = append(with, ':')
	with = append(with, value...)
	e.cuts = append(e.cuts, cut{obj.end - 1, obj.end - 1, with})
}

// Set sets the member name of obj to value. It replaces the member if there is one and
// appends it otherwise. If obj is not an object nothing happens.
func (e *Edit) Set(obj Value, name string, value Raw) {
	if old := obj.Get(name); old.Exists() {
		e.Replace(old, value)
		return
	}
	e.Add(obj, name, value)
}

// Remove removes every member of obj whose name is one of names, each with its comma. Call
// it at most once per object, and do not combine it with Add on the same object.
func (e *Edit) Remove(obj Value, names ...string) {
	kept := false // a member before this one stays
	end := 0      // of the one before
	gap := -1     // the cut, if any, that goes up to the next key
	for m := range obj.Members() {
		if gap >= 0 {
			e.cuts[gap].end = m.Key.start
			gap = -1
		}
		switch {
		case !slices.ContainsFunc(names, m.Is):
			kept = true
		case kept: // from the end of the one before to the end of this one
			e.cuts = append(e.cuts, cut{end, m.Value.end, nil})
		default: // up to the next key, if there is one
			gap = len(e.cuts)
			e.cuts = append(e.cuts, cut{m.Key.start, m.Value.end, nil})
		}
		end = m.Value.end
	}
}

// Cut returns the member name of the object v, and the text of v before and after it without
// the comma that goes with it: both together are v without the member. Without such a member it
// returns the zero Value.
func (v Value) Cut(name string) (member Value, before, after Raw) {
	if v.Kind() != '{' {
		return Value{}, nil, nil
	}
	b := v.doc
	i := skipSpace(b, v.start+1)
	last := -1 // the end of the member before
	for b[i] == '"' {
		key := Value{b, i, v.skipString(i), v.long}
		at := skipSpace(b, key.end)
		at = skipSpace(b, at+1) // the colon
		value := Value{b, at, v.skipValue(at), v.long}
		next := skipSpace(b, value.end)
		if b[next] == ',' {
			next = skipSpace(b, next+1)
		}
		if key.IsString(name) {
			switch {
			case last >= 0:
				return value, b[v.start:last:last], b[value.end:v.end:v.end]
			case b[next] == '"':
				return value, b[v.start:i:i], b[next:v.end:v.end]
			default:
				return value, b[v.start:i:i], b[value.end:v.end:v.end]
			}
		}
		last, i = value.end, next
	}
	return Value{}, nil, nil
}

// RemoveElements removes the elements of the array arr for which drop returns true, each
// with its comma. It returns how many it removed.
func (e *Edit) RemoveElements(arr Value, drop func(Value) bool) int {
	var elements []Value
	for el := range arr.Elements() {
		elements = append(elements, el)
	}
	kept, dropped := false, 0
	for i, el := range elements {
		if !drop(el) {
			kept = true
			continue
		}
		dropped++
		switch {
		case kept:
			e.cuts = append(e.cuts, cut{elements[i-1].end, el.end, nil})
		case i+1 < len(elements):
			e.cuts = append(e.cuts, cut{el.start, elements[i+1].start, nil})
		default:
			e.cuts = append(e.cuts, cut{el.start, el.end, nil})
		}
	}
	return dropped
}

// Changed reports whether the edit has any change.
func (e *Edit) Changed() bool { return len(e.cuts) > 0 }

// Bytes returns the edited document: the document itself without changes, else a new one.
func (e *Edit) Bytes() Raw {
	if len(e.cuts) == 0 {
		return e.doc
	}
	e.sort()
	size := len(e.doc)
	for _, c := range e.cuts {
		size += len(c.with) - (c.end - c.start)
	}
	out := make([]byte, 0, size)
	at := 0
	for _, c := range e.cuts {
		out = append(out, e.doc[at:c.start]...)
		out = append(out, c.with...)
		at = c.end
	}
	return append(out, e.doc[at:]...)
}

// Pieces appends the edited document to pieces, as parts of the document and the changes
// between them. It copies no text.
func (e *Edit) Pieces(pieces [][]byte) [][]byte {
	e.sort()
	at := 0
	for _, c := range e.cuts {
		pieces = append(pieces, e.doc[at:c.start], c.with)
		at = c.end
	}
	return append(pieces, e.doc[at:])
}

// sort puts the changes in the order of the document.
func (e *Edit) sort() {
	slices.SortStableFunc(e.cuts, func(a, b cut) int { return cmp.Compare(a.start, b.start) })
}

// SetMember returns obj, valid JSON, with the member name set to value. Other bytes stay. A
// value that is not an object is returned as it is.
func SetMember(obj Raw, name string, value Raw) Raw {
	e := NewEdit(obj)
	e.Set(e.Root(), name, value)
	return e.Bytes()
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	out, _ := jsontext.AppendQuote(dst, s) // the error only reports invalid UTF-8, which was replaced
	return out
}

// isPlain reports whether s is printable ASCII without anything to escape, as most strings are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// String returns s as a JSON string.
func String(s string) Raw { return AppendString(make([]byte, 0, len(s)+2), s) }

// Strings returns texts as a JSON array of strings.
func Strings[S ~string](texts []S) Raw {
	out := Raw{'['}
	for i, s := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = AppendString(out, string(s))
	}
	return append(out, ']')
}
