package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound one message.
type Limits struct {
	Depth int // levels of nesting, at most 10000, which the parser can read; 0 means DefaultDepth
}

// maxDepth is the bound of the JSON library.
const maxDepth = 10_000

// DefaultDepth bounds nesting if no bound is configured.
const DefaultDepth = 1000

func (l Limits) depth() int {
	if l.Depth > 0 {
		return l.Depth
	}
	return DefaultDepth
}

// Strictness says how deep in a message duplicate keys are refused.
type Strictness uint8

const (
	// Strict refuses duplicate keys at every depth. It is for clients, because policy
	// decides on arguments, and could be bypassed with a message that two parsers read
	// differently.
	Strict Strictness = iota
	// Lenient permits duplicate keys. It is for upstreams, because a client must not lose
	// a result for a violation deep in it.
	Lenient
)

// Check returns why data is not one JSON value: trailing data, bad syntax, raw bytes that are
// not UTF-8, nesting over the limit or, if strict, duplicate keys. Escaped lone surrogates
// are allowed, because real servers cut emoji in half.
func Check(data []byte, lim Limits, strictness Strictness) error {
	if ok, _ := accepts(data, lim.depth(), strictness); ok {
		return nil
	}
	return checkSlowly(data, lim, strictness)
}

// checkSlowly is Check for text that the scanner does not accept.
func checkSlowly(data []byte, lim Limits, strictness Strictness) error {
	if HasBOM(data) { // readers may ignore it (RFC 8259, section 8.1), so that two could differ
		return errors.New("the text begins with a byte order mark (BOM, the bytes EF BB BF); JSON is sent without one")
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("invalid UTF-8 at byte %d", invalidUTF8(data))
	}
	if at := tooDeep(data, lim.depth()); at >= 0 {
		return fmt.Errorf("nested deeper than %d levels at byte %d", lim.depth(), at)
	}
	// The check above covers raw bytes. AllowInvalidUTF8 permits escaped lone surrogates,
	// which jsontext counts as invalid UTF-8.
	if jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(strictness == Lenient)) {
		return nil
	}
	return explain(data, strictness)
}

// explain finds the reason, on the slow path, after the check has failed.
func explain(data []byte, strictness Strictness) error {
	var v jsontext.Value = data
	v = v.Clone() // Format works in place
	err := v.Format(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(strictness == Lenient))
	if err == nil {
		return errors.New("not valid JSON")
	}
	text := strings.TrimPrefix(err.Error(), "jsontext: ") // the name of the library does not help the reader
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return errors.New(text)
}

// maxReason bounds the part of a message that an error repeats: a key can be long.
const maxReason = 256

// HasBOM reports whether data begins with a byte order mark.
func HasBOM(data []byte) bool { return bytes.HasPrefix(data, bom) }

var bom = []byte("\xef\xbb\xbf")

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// tooDeep returns the index of the bracket that opens a level deeper than max,
// -1 for none. The data need not be valid.
func tooDeep(b []byte, max int) int {
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) <= max {
		return -1 // true for nearly every message, and much faster than the loop
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > max {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}
