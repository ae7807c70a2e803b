package configfile

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"gopkg.in/yaml.v3"
)

// wholeNumber matches numbers without fraction and exponent.
var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// parseJSON parses a JSON file, comments and trailing commas allowed, into the nodes that the same
// content has in YAML. A YAML parser would read some JSON differently (surrogate escapes, long keys). The
// error has no File.
func parseJSON(data []byte) (*yaml.Node, *Error) {
	plain, bad := blank(data)
	if bad >= 0 {
		pos := posAt(data, bad)
		return nil, &Error{Line: pos.Line, Col: pos.Col, Msg: "not valid JSON: a comment without its end"}
	}
	r := &jsonReader{
		data: data, plain: plain,
		dec:  jsontext.NewDecoder(bytes.NewReader(plain), jsontext.AllowDuplicateNames(true)), // Pairs reports duplicates with both positions
		line: 1, col: 1,
	}
	root, err := r.value()
	if err == nil {
		_, err = r.dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return root, nil
		}
		if err == nil {
			err = errors.New("something follows after its end")
		}
	}
	return nil, r.withPosition(err)
}

// jsonReader converts tokens to nodes.
type jsonReader struct {
	data, plain []byte // the file with and without comments, of equal length
	dec         *jsontext.Decoder

	// The position of offset, which only grows, so that every line is counted once.
	offset, line, col int
}

// value reads one value.
func (r *jsonReader) value() (*yaml.Node, error) {
	start := int(r.dec.InputOffset())
	for start < len(r.plain) && bytes.IndexByte([]byte(" \t\r\n,:"), r.plain[start]) >= 0 {
		start++
	}
	tok, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	r.advance(start)
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line, Column: r.col}
	switch kind := tok.Kind(); kind {
	case '{', '[':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if kind == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for end := kind + 2; r.dec.PeekKind() != end; { // } and ] stand two after { and [
			child, err := r.value()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err = r.dec.ReadToken()
		return n, err
	case '"':
		n.Tag, n.Value, n.Style = "!!str", tok.String(), yaml.DoubleQuotedStyle
	case '0':
		n.Tag, n.Value = "!!float", tok.String()
		if wholeNumber.MatchString(n.Value) {
			n.Tag = "!!int"
		}
	case 't', 'f':
		n.Tag, n.Value = "!!bool", tok.String()
	default:
		n.Tag, n.Value = "!!null", tok.String()
	}
	return n, nil
}

// advance moves the position to a later offset.
func (r *jsonReader) advance(offset int) {
	for _, c := range r.data[r.offset:offset] {
		switch {
		case c == '\n':
			r.line, r.col = r.line+1, 1
		case utf8.RuneStart(c):
			r.col++
		}
	}
	r.offset = offset
}

// withPosition adds the position to an error of the JSON library.
func (r *jsonReader) withPosition(err error) *Error {
	offset, msg := int(r.dec.InputOffset()), err.Error()
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset, msg = int(se.ByteOffset), se.Err.Error()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		offset, msg = len(r.data), "it ends too early"
	}
	pos := posAt(r.data, min(offset, len(r.data)))
	return &Error{Line: pos.Line, Col: pos.Col, Msg: "not valid JSON: " + msg}
}

// posAt is the position of an offset.
func posAt(data []byte, offset int) Pos {
	before := data[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return Pos{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])}
}

// blank returns a copy with spaces in place of the byte order mark, comments and trailing
// commas, so that every other byte keeps its offset. bad is the offset of a comment that does not
// end, or -1.
func blank(data []byte) (plain []byte, bad int) {
	plain = bytes.Clone(data)
	wipe := func(from, to int) {
		for i := from; i < to; i++ {
			if plain[i] != '\n' {
				plain[i] = ' '
			}
		}
	}
	if bytes.HasPrefix(plain, []byte("\xef\xbb\xbf")) {
		wipe(0, 3)
	}
	comma := -1 // the last comma that only space follows
	for i := 0; i < len(plain); i++ {
		switch c := plain[i]; {
		case c == '"':
			i = stringEnd(plain, i)
			comma = -1
		case c == '/' && bytes.HasPrefix(plain[i:], []byte("//")):
			end := len(plain)
			if n := bytes.IndexByte(plain[i:], '\n'); n >= 0 {
				end = i + n
			}
			wipe(i, end)
		case c == '/' && bytes.HasPrefix(plain[i:], []byte("/*")):
			n := bytes.Index(plain[i+2:], []byte("*/"))
			if n < 0 {
				return nil, i
			}
			wipe(i, i+2+n+2)
		case c == ',':
			comma = i
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case (c == '}' || c == ']') && comma >= 0:
			plain[comma] = ' '
			comma = -1
		default:
			comma = -1
		}
	}
	return plain, -1
}

// stringEnd is the offset of the quote that ends the string at i, or the last offset if the string
// does not end.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data) - 1
}
