package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound what one message may be.
type Limits struct {
	Depth int // levels of nesting, at most 10000, which the parser bears; 0 means DefaultDepth
}

// maxDepth is how deep the JSON library can read.
const maxDepth = 10_000

// DefaultDepth is the bound on nesting where none is configured.
const DefaultDepth = 1000

func (l Limits) depth() int {
	if l.Depth > 0 {
		return l.Depth
	}
	return DefaultDepth
}

// Strictness says how deep into a message duplicate keys are refused.
type Strictness uint8

const (
	// Strict refuses duplicate keys at every depth. For clients: policy
	// decides on arguments, and two parsers that read one message differently
	// are a way round it.
	Strict Strictness = iota
	// Lenient leaves duplicate keys to whoever reads the object. For
	// upstreams, whose deeper faults must not take a result from the client.
	Lenient
)

// Check reports why data is not one JSON value: trailing data, bad syntax, raw
// bytes that are not UTF-8, nesting over the limit and, when strict, duplicate
// keys. Escaped lone surrogates are allowed: real servers cut emoji in half.
func Check(data []byte, lim Limits, strictness Strictness) error {
	if HasBOM(data) { // which a reader may ignore (RFC 8259, section 8.1), so that two could differ
		return errors.New("the text begins with a byte order mark (BOM, the bytes EF BB BF); JSON is sent without one")
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("invalid UTF-8 at byte %d", invalidUTF8(data))
	}
	if at := tooDeep(data, lim.depth()); at >= 0 {
		return fmt.Errorf("nested deeper than %d levels at byte %d", lim.depth(), at)
	}
	// The check above covers raw bytes; AllowInvalidUTF8 here lets escaped
	// lone surrogates through, which jsontext counts among invalid UTF-8.
	if jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(strictness == Lenient)) {
		return nil
	}
	return explain(data, strictness)
}

// explain finds the reason on the slow path, when it is known that there is one.
func explain(data []byte, strictness Strictness) error {
	var v jsontext.Value = data
	v = v.Clone() // Format works in place
	err := v.Format(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(strictness == Lenient))
	if err == nil {
		return errors.New("not valid JSON")
	}
	text := strings.TrimPrefix(err.Error(), "jsontext: ") // the reader has no use for the name of a library
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return errors.New(text)
}

// maxReason bounds what an error repeats of a message, which may be a key of any
// length.
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
// -1 when there is none. The data need not be valid.
func tooDeep(b []byte, max int) int {
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) <= max {
		return -1 // nearly every message, and much faster than walking
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
