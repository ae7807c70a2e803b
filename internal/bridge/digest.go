package bridge

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Binding is what a request state belongs to: one principal's request for one
// item with the same arguments.
type Binding struct {
	principal [sha256.Size]byte
	request   [sha256.Size]byte
}

// BindingOf returns the binding of a call as the client sent it, under public
// names. Its params must have passed the strict check for clients. What a retry
// may change does not count: _meta, inputResponses and requestState.
func BindingOf(c *call.Call) Binding {
	b := Binding{principal: sha256.Sum256([]byte(c.Principal.Key()))}
	h := sha256.New()
	text(h, 'm', []byte(c.Method))
	members(h, wire.ValueOf(c.Params), func(key string) bool {
		return key == "_meta" || key == "inputResponses" || key == "requestState"
	})
	h.Sum(b.request[:0])
	return b
}

// digest writes one value so that two values have the same bytes only if no
// reader could tell them apart: the order of members, the spelling of strings
// and that of numbers do not matter, everything else does. A number is compared
// as the decimal number that it is, not as the nearest float. That, and that the
// lengths are part of it, is why it is not [wire.AppendDigest], which others can
// compute: nobody else needs this one, and what a user has consented to must not
// hold for arguments that differ in the last digit.
func digest(h hash.Hash, v wire.Value) {
	switch v.Kind() {
	case '{':
		members(h, v, func(string) bool { return false })
	case '[':
		h.Write([]byte{'['})
		for el := range v.Elements() {
			digest(h, el)
		}
		h.Write([]byte{']'})
	case '"':
		s, _ := v.Text()
		if strings.ContainsRune(s, utf8.RuneError) && bytes.IndexByte(v.Raw(), '\\') >= 0 {
			text(h, 'r', v.Raw()) // perhaps a lone surrogate, of which there are many
			return
		}
		text(h, 's', []byte(s))
	case '0':
		text(h, '0', number(string(v.Raw())))
	default:
		h.Write([]byte{v.Kind()})
	}
}

// members writes an object without the members that skip names.
func members(h hash.Hash, v wire.Value, skip func(key string) bool) {
	type member struct {
		key   string
		value wire.Value
	}
	var all []member
	for m := range v.Members() {
		if key := m.Key.Str(); !skip(key) {
			all = append(all, member{key, m.Value})
		}
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	h.Write([]byte{'{'})
	for _, m := range all {
		text(h, 'k', []byte(m.key))
		digest(h, m.value)
	}
	h.Write([]byte{'}'})
}

// text writes bytes with what they are and how many.
func text(h hash.Hash, kind byte, b []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(b)))
	h.Write(head[:])
	h.Write(b)
}

// number returns one spelling for all those of a decimal number: its sign, its
// digits without zeros at either end, and the power of ten that they stand
// for. The sign of zero is kept, since some readers see it. An exponent out of
// all reason keeps its own spelling.
func number(s string) []byte {
	digits, negative := strings.CutPrefix(s, "-")
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		n, err := strconv.ParseInt(digits[i+1:], 10, 32)
		if err != nil {
			return []byte(s)
		}
		exponent, digits = int(n), digits[:i]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	out := make([]byte, 0, len(trimmed)+12)
	if negative {
		out = append(out, '-')
	}
	if trimmed == "" {
		return append(out, '0')
	}
	out = append(append(out, trimmed...), 'e')
	return strconv.AppendInt(out, int64(exponent), 10)
}
