package hostconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonDocument is a JSON file with comments and trailing commas.
type jsonDocument struct {
	bom     []byte // the byte order mark, if there is one
	data    []byte // the rest
	root    hujson.Value
	decoded map[string]any
	key     string
}

var byteOrderMark = []byte("\ufeff")

func parseJSON(data []byte, key string) (document, error) {
	d := &jsonDocument{key: key, data: bytes.TrimPrefix(data, byteOrderMark)}
	d.bom = data[:len(data)-len(d.data)]
	if len(bytes.TrimSpace(d.data)) == 0 {
		d.data = []byte("{}\n")
	}
	var err error
	if d.root, err = hujson.Parse(d.data); err != nil {
		// The parser wants a line break after a last comment. It moves nothing before it.
		if again, err := hujson.Parse(append(bytes.Clone(d.data), '\n')); err == nil {
			return d.decode(again)
		}
		return nil, notJSON(err)
	}
	return d.decode(d.root)
}

// notJSON converts an error of the parser.
func notJSON(err error) error {
	var line, column int
	head, msg, ok := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), ": ")
	if _, bad := fmt.Sscanf(head, "line %d, column %d", &line, &column); !ok || bad != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		msg = "it ends too early" // as config and hostimport say
	}
	return &SyntaxError{line, column, "not valid JSON: " + msg + "; correct this first"}
}

// decode completes a document by its parsed content.
func (d *jsonDocument) decode(root hujson.Value) (document, error) {
	d.root = root
	if d.root.Value.Kind() != '{' {
		return nil, errors.New("it must hold a JSON object, { … }")
	}
	plain := d.root.Clone()
	plain.Standardize()
	dec := json.NewDecoder(bytes.NewReader(plain.Pack()))
	dec.UseNumber()
	if err := dec.Decode(&d.decoded); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	return d, nil
}

func (d *jsonDocument) whole() map[string]any { return d.decoded }

func (d *jsonDocument) servers() (map[string]any, error) {
	list, n := find(d.root, d.key)
	switch {
	case n == 0:
		return nil, nil
	case n > 1:
		return nil, fmt.Errorf("it has %s %d times; keep one of them", d.key, n)
	case list.Value.Kind() != '{':
		return nil, fmt.Errorf("%s must be an object, { … }", d.key)
	}
	for name := range d.decoded[d.key].(map[string]any) {
		if _, n := find(list, name); n > 1 {
			return nil, fmt.Errorf("%s has %q %d times; keep one of them", d.key, name, n)
		}
	}
	return d.decoded[d.key].(map[string]any), nil
}

func (d *jsonDocument) names() (all []string) {
	if list, n := find(d.root, d.key); n > 0 {
		for _, m := range list.Value.(*hujson.Object).Members {
			all = append(all, m.Name.Value.(hujson.Literal).String())
		}
	}
	return all
}

// find returns a member of an object, and how many there are with this name.
func find(object hujson.Value, name string) (value hujson.Value, n int) {
	for _, m := range object.Value.(*hujson.Object).Members {
		if m.Name.Value.(hujson.Literal).String() == name {
			value = m.Value
			n++
		}
	}
	return value, n
}

func (d *jsonDocument) add(name string, members []member) ([]byte, error) {
	if list, n := find(d.root, d.key); n > 0 {
		return d.insert(list, func(l layout) string { return quoteJSON(name) + ": " + l.object(members) }), nil
	}
	return d.insert(d.root, func(l layout) string {
		in := l.deeper()
		return quoteJSON(d.key) + ": {" + in.line() + quoteJSON(name) + ": " + in.object(members) + l.line() + "}"
	}), nil
}

func (d *jsonDocument) replace(name string, members []member) ([]byte, error) {
	list, _ := find(d.root, d.key)
	old, _ := find(list, name)
	edits := edits{}
	edits.replace(old.StartOffset, old.EndOffset, d.layoutOf(list).object(members))
	return append(bytes.Clone(d.bom), edits.apply(d.data)...), nil
}

// layout is how a member of an object is written.
type layout struct {
	eol, indent, unit string // without eol everything is on one line
}

func (l layout) deeper() layout { return layout{l.eol, l.indent + l.unit, l.unit} }

// line begins a line.
func (l layout) line() string {
	if l.eol == "" {
		return ""
	}
	return l.eol + l.indent
}

// object writes an entry.
func (l layout) object(members []member) string {
	in, separator := l.deeper(), ","
	if l.eol == "" {
		separator = ", "
	}
	texts := make([]string, len(members))
	for i, m := range members {
		value := "{}"
		switch v := m.value.(type) {
		case string:
			value = quoteJSON(v)
		case []string:
			quoted := make([]string, len(v))
			for i, s := range v {
				quoted[i] = quoteJSON(s)
			}
			value = "[" + strings.Join(quoted, ", ") + "]"
		}
		texts[i] = in.line() + quoteJSON(m.key) + ": " + value
	}
	return "{" + strings.Join(texts, separator) + l.line() + "}"
}

// insert adds a member at the end of an object.
func (d *jsonDocument) insert(object hujson.Value, text func(layout) string) []byte {
	members := object.Value.(*hujson.Object).Members
	end := object.EndOffset - 1 // of the closing brace
	after, comma := object.StartOffset+1, -1
	trailing := ""
	if len(members) > 0 {
		last := members[len(members)-1].Value
		after = last.EndOffset
		if last.AfterExtra != nil { // a trailing comma
			after += len(last.AfterExtra) + 1
			trailing = ","
		} else {
			comma = last.EndOffset
		}
	}
	// Comments at the end of the object stay where they are.
	at := after + len(bytes.TrimRight(d.data[after:end], " \t\r\n"))
	l := d.layoutOf(object)
	edits := edits{}
	if comma >= 0 {
		edits.insert(comma, ",")
	}
	switch {
	case l.eol == "" && len(members) > 0:
		edits.insert(at, " "+text(l)+trailing)
	case l.eol == "":
		edits.insert(at, text(l))
	default:
		edits.insert(at, l.line()+text(l)+trailing)
		if !bytes.Contains(d.data[at:end], []byte("\n")) {
			edits.replace(at, end, l.eol+indentAt(d.data, object.StartOffset))
		}
	}
	return append(bytes.Clone(d.bom), edits.apply(d.data)...)
}

// layoutOf returns the layout of the members of an object: that of its first member, or else one level deeper than
// the object.
func (d *jsonDocument) layoutOf(object hujson.Value) layout {
	l := layout{eol: "\n", unit: "  "}
	if bytes.Contains(d.data, []byte("\r\n")) {
		l.eol = "\r\n"
	}
	top := d.root.Value.(*hujson.Object).Members
	if len(top) > 0 {
		if indent, own := lineIndent(d.data, top[0].Name.StartOffset); own && indent != "" {
			l.unit = indent
		}
	}
	members := object.Value.(*hujson.Object).Members
	around := object
	if len(members) == 0 {
		around = d.root
	}
	if within := d.data[around.StartOffset:around.EndOffset]; !bytes.Contains(within, []byte("\n")) && len(top) > 0 {
		return layout{}
	}
	l.indent = indentAt(d.data, object.StartOffset) + l.unit
	if len(members) > 0 {
		if indent, own := lineIndent(d.data, members[0].Name.StartOffset); own {
			l.indent = indent
		}
	}
	return l
}

// lineIndent returns the white space at the beginning of the line of an offset, and whether nothing else is before the
// offset.
func lineIndent(data []byte, at int) (indent string, own bool) {
	line := data[bytes.LastIndexByte(data[:at], '\n')+1:]
	indent = string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
	return indent, len(data)-len(line)+len(indent) == at
}

func indentAt(data []byte, at int) string {
	indent, _ := lineIndent(data, at)
	return indent
}

func (d *jsonDocument) remove(name string, emptyList bool) ([]byte, error) {
	list, _ := find(d.root, d.key)
	if object := list.Value.(*hujson.Object); emptyList && len(object.Members) == 1 {
		m := object.Members[0]
		if comments := slices.Concat(m.Name.BeforeExtra, m.Value.AfterExtra, object.AfterExtra); len(bytes.TrimSpace(comments)) == 0 {
			return d.cut(d.root, d.key), nil
		}
	}
	return d.cut(list, name), nil
}

// cut returns the file without a member of an object.
func (d *jsonDocument) cut(object hujson.Value, name string) []byte {
	members := object.Value.(*hujson.Object).Members
	i := 0
	for members[i].Name.Value.(hujson.Literal).String() != name {
		i++
	}
	m := members[i]
	start, end := m.Name.StartOffset, m.Value.EndOffset
	edits := edits{}
	switch {
	case i < len(members)-1 || m.Value.AfterExtra != nil: // a comma follows
		comma := end + len(m.Value.AfterExtra)
		if comma == end {
			end++
		} else {
			edits.replace(comma, comma+1, "")
		}
	case i > 0: // the comma before goes
		before := members[i-1].Value
		comma := before.EndOffset + len(before.AfterExtra)
		if len(bytes.TrimSpace(d.data[comma+1:start])) == 0 && !bytes.Contains(d.data[comma:start], []byte("\n")) {
			start = comma
		} else {
			edits.replace(comma, comma+1, "")
		}
	}
	start, end = wholeLines(d.data, start, end)
	edits.replace(start, end, "")
	return append(bytes.Clone(d.bom), edits.apply(d.data)...)
}

// wholeLines extends a range that has nothing but white space beside it on its lines to whole lines. Else it extends
// the range by the white space after it, if nothing precedes it in its object.
func wholeLines(data []byte, start, end int) (from, to int) {
	from = start - len(data[:start]) + len(bytes.TrimRight(data[:start], " \t"))
	to = end + len(data[end:]) - len(bytes.TrimLeft(data[end:], " \t\r"))
	if (from == 0 || data[from-1] == '\n') && to < len(data) && data[to] == '\n' {
		return from, to + 1
	}
	if from > 0 && data[from-1] == '{' && to < len(data) && data[to] == '"' {
		return start, to
	}
	return start, end
}
