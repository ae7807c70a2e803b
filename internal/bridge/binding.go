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

	"github.com/go-json-experiment/json/jsontext"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// Binding ties a request state to one principal's request for one item with the same
// arguments.
type Binding struct {
	principal [sha256.Size]byte
	request   [sha256.Size]byte
}

// BindingOf returns the binding of a call as the client sent it, under public names. Its params
// must have passed the strict check for clients. The members that a retry may change do not
// count: _meta, inputResponses and requestState.
func BindingOf(c *call.Call) Binding {
	b := Binding{principal: sha256.Sum256([]byte(c.Principal.Key()))}
	h := sha256.New()
	text(h, 'm', []byte(c.Method))
	if len(c.Params) > 0 {
		d := digester{jsontext.NewDecoder(bytes.NewBuffer(c.Params), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))}
		if err := d.object(h, func(key string) bool {
			return key == "_meta" || key == "inputResponses" || key == "requestState"
		}); err != nil { // the params are not an object of valid JSON
			text(h, 'e', c.Params)
		}
	}
	h.Sum(b.request[:0])
	return b
}

// digester hashes values. Two values have the same hash only if no reader could distinguish them:
// the order of members and the spelling of strings and numbers do not matter, everything else
// does. A number is compared as a decimal number, not as the nearest float, because the consent
// of a user must not hold for arguments that differ in the last digit. [wire.AppendDigest] is
// less strict, so that others can compute it.
//
// The digester reads the text once, however deeply it is nested, because clients choose it.
type digester struct{ dec *jsontext.Decoder }

func (d digester) value(h hash.Hash) error {
	switch kind := d.dec.PeekKind(); kind {
	case '{':
		return d.object(h, func(string) bool { return false })
	case '[':
		if _, err := d.dec.ReadToken(); err != nil {
			return err
		}
		h.Write([]byte{'['})
		for k := d.dec.PeekKind(); k != ']'; k = d.dec.PeekKind() {
			if err := d.value(h); err != nil {
				return err
			}
		}
		h.Write([]byte{']'})
		_, err := d.dec.ReadToken()
		return err
	default:
		raw, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		scalar(h, wire.ValueOf(wire.Raw(raw)))
		return nil
	}
}

// object writes an object without the members for which skip returns true. Each member is
// written as its key and a digest of its value, because the members are sorted at the end.
func (d digester) object(h hash.Hash, skip func(key string) bool) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	type member struct {
		key   string
		value [sha256.Size]byte
	}
	var all []member
	of := sha256.New()
	for k := d.dec.PeekKind(); k != '}'; k = d.dec.PeekKind() {
		token, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		m := member{key: token.String()}
		if skip(m.key) {
			if err := d.dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		of.Reset()
		if err := d.value(of); err != nil {
			return err
		}
		of.Sum(m.value[:0])
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	h.Write([]byte{'{'})
	for _, m := range all {
		text(h, 'k', []byte(m.key))
		h.Write(m.value[:])
	}
	h.Write([]byte{'}'})
	_, err := d.dec.ReadToken()
	return err
}

// scalar writes a string, a number, a boolean or null.
func scalar(h hash.Hash, v wire.Value) {
	switch v.Kind() {
	case '"':
		s, _ := v.Text()
		if strings.ContainsRune(s, utf8.RuneError) && bytes.IndexByte(v.Raw(), '\\') >= 0 {
			text(h, 'r', v.Raw()) // perhaps a lone surrogate, and Text makes all of them equal
			return
		}
		text(h, 's', []byte(s))
	case '0':
		text(h, '0', number(string(v.Raw())))
	default:
		h.Write([]byte{v.Kind()})
	}
}

// text writes bytes after their kind and length.
func text(h hash.Hash, kind byte, b []byte) {
	var head [9]byte
	head[0] = kind
	binary.BigEndian.PutUint64(head[1:], uint64(len(b)))
	h.Write(head[:])
	h.Write(b)
}

// number returns the same spelling for all spellings of a decimal number: its sign, its digits
// without zeros at either end, and their power of ten. The sign of zero is kept, because some
// readers see it. A number with an exponent over 32 bits keeps its spelling.
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
