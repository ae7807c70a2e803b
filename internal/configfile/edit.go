package configfile

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Edit is a YAML file that is edited in place: each change replaces the text of one entry and keeps every other byte.
// After each change the text is parsed again and compared with the intended content. A change that fails leaves the
// text as it was; its error is an [Error], which says what to edit by hand.
type Edit struct {
	name string
	text string
	root *yaml.Node
}

// NewEdit parses a file. The error says why it cannot be edited: it is not valid YAML in block style.
func NewEdit(name string, data []byte) (*Edit, *Error) {
	e := &Edit{name: name, text: string(data)}
	root, err := Parse(name, data)
	if err != nil {
		return nil, err
	}
	e.root = root
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", ".jsonc", ".toml":
		return nil, e.refuse(root, "is not YAML, and only a gateway.yaml is edited: change this file by hand, or make a gateway.yaml of a host's servers with gateway import %s -o gateway.yaml", name)
	}
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 || bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, e.refuse(root, "cannot be edited: it is not a mapping in YAML's block style, key: value on lines of its own; write it so, or edit it by hand")
	}
	return e, nil
}

// Bytes returns the text after all changes.
func (e *Edit) Bytes() []byte { return []byte(e.text) }

// Root returns the content.
func (e *Edit) Root() *yaml.Node { return e.root }

func (e *Edit) refuse(at *yaml.Node, format string, args ...any) *Error {
	return &Error{File: e.name, Line: max(1, at.Line), Col: max(1, at.Column), Msg: fmt.Sprintf(format, args...)}
}

// Has reports whether the section has an entry with this key.
func (e *Edit) Has(section, key string) bool {
	s := e.section(section)
	return s.value != nil && s.index(key) >= 0
}

// Set puts an entry at the end of a section, which is a key of the file with a mapping, or in the place of an entry with
// the same key. The head comment of the value gets above the key. A section that does not exist begins at the end of the file. An entry in braces, {…}, gets in front of
// the others.
func (e *Edit) Set(section, key string, value *yaml.Node) *Error {
	text, root := e.text, e.root
	err := e.set(section, key, value)
	if err != nil {
		e.text, e.root = text, root
	}
	return err
}

func (e *Edit) set(section, key string, value *yaml.Node) *Error {
	s := e.section(section)
	name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, HeadComment: value.HeadComment}
	entry := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{name, value}}
	value.HeadComment = ""
	switch at := s.index(key); {
	case s.value == nil:
		text := e.indented(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: section}, entry}}, 0, 2)
		end := e.contentEnd(1, e.lastLine(), -1)
		if end > 0 {
			text = e.eol() + text
		}
		return e.apply(s, at, entry, e.atLine(end+1), text)
	case s.value.Kind == yaml.AliasNode || s.value.Kind != yaml.MappingNode && !IsNull(s.value):
		return e.refuse(s.value, "%s cannot be edited: it is not a mapping that is written here; edit it by hand", section)
	case at >= 0:
		return e.replace(s, at, entry)
	case s.inBraces():
		return e.setInBraces(s, entry)
	case len(s.value.Content) == 0 && !IsNull(s.value) && !e.empty(s):
		return e.refuse(s.value, "%s cannot be edited: it is empty in a form that is not known; write only %s: there", section, section)
	}
	indent, step := 2, 2
	if IsNull(s.value) && s.key.Column > 1 {
		return e.refuse(s.key, "%s cannot be edited: it is indented", section)
	}
	if len(s.value.Content) > 0 {
		indent, step = s.value.Content[0].Column-1, e.step(s)
	}
	text := e.indented(entry, indent, step)
	to := e.lineAfter(s.key)
	last := s.key.Line
	if n := len(s.value.Content); n > 0 {
		last = s.value.Content[n-2].Line
		if e.blank(e.headOf(s.value.Content[n-2])-1) && n > 2 {
			text = e.eol() + text
		}
	}
	end := e.contentEnd(last, to-1, s.key.Column-1)
	if _, is := e.comment(end); is && len(s.value.Content) == 0 {
		text = e.eol() + text // the comment is about the section
	}
	if err := e.apply(s, -1, entry, e.atLine(end+1), text); err != nil {
		return e.apply(s, -1, entry, e.atLine(to), text) // the text ends with lines of a block scalar
	}
	return nil
}

// Remove removes an entry of a section, with the comment right above it.
func (e *Edit) Remove(section, key string) *Error {
	s := e.section(section)
	at := s.index(key)
	switch {
	case s.value == nil || at < 0:
		return e.refuse(e.root, "%s has no entry %s that is written here; an entry from a merge (<<) is removed where it is written", section, Quote(key))
	case s.inBraces():
		from, to, ok := e.inBraces(s, at)
		if !ok {
			return e.refuse(s.value.Content[2*at], "cannot be removed: its end is not known; edit the line by hand")
		}
		return e.splice(s, at, nil, from, to, "")
	}
	from, to := e.lines(s, at)
	from = e.ownHead(s.value.Content[2*at], from)
	if e.blank(from-1) && (e.blank(to) || to > e.lastLine()) {
		from--
	}
	return e.splice(s, at, nil, e.atLine(from), e.atLine(to), "")
}

// SetScalar adds a key of the file with a string, in front of another key, or at the end of the file.
func (e *Edit) SetScalar(key, value, before string) *Error {
	s := e.section(key)
	if s.value != nil {
		return e.refuse(s.value, "%s is set already", key)
	}
	at, line := len(e.root.Content), e.contentEnd(1, e.lastLine(), -1)+1
	if next := e.section(before); next.value != nil {
		if head := e.headOf(next.key); head > 1 || head == next.key.Line { // else the comment may be that of the file
			at, line = e.position(next), head
		}
	}
	entry := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, {Kind: yaml.ScalarNode, Tag: "!!str", Value: value}}}
	old := clone(e.root)
	old.Content = slices.Insert(old.Content, at, entry.Content...)
	offset, text := e.atLine(line), e.indented(entry, 0, 2)
	if offset == len(e.text) {
		text = e.eol() + text
	} else {
		text += e.eol()
	}
	return e.commit(e.text[:offset]+e.lineEnd(offset)+text+e.text[offset:], old, e.root)
}

// section is a key of the file; value is nil if the file does not have it.
type section struct{ key, value *yaml.Node }

func (e *Edit) section(name string) section {
	for i := 0; i+1 < len(e.root.Content); i += 2 {
		if e.root.Content[i].Value == name {
			return section{e.root.Content[i], e.root.Content[i+1]}
		}
	}
	return section{key: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}}
}

// index is the number of an entry, -1 if there is none.
func (s section) index(key string) int {
	if s.value != nil && s.value.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(s.value.Content); i += 2 {
			if s.value.Content[i].Value == key && s.value.Content[i].Tag != "!!merge" {
				return i / 2
			}
		}
	}
	return -1
}

// inBraces reports whether the section has entries in flow style.
func (s section) inBraces() bool {
	return s.value.Style&yaml.FlowStyle != 0 && len(s.value.Content) > 0
}

// step is the indentation of the values of a section.
func (e *Edit) step(s section) int {
	for i := 0; i+1 < len(s.value.Content); i += 2 {
		key, value := s.value.Content[i], s.value.Content[i+1]
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 && value.Content[0].Column > key.Column {
			return value.Content[0].Column - key.Column
		}
	}
	return 2
}

// replace puts an entry into the place of another.
func (e *Edit) replace(s section, at int, entry *yaml.Node) *Error {
	entry.Content[0].LineComment = s.value.Content[2*at].LineComment
	if s.inBraces() {
		from, to, ok := e.inBraces(s, at)
		if !ok {
			return e.refuse(s.value.Content[2*at], "cannot be replaced: its end is not known; edit the line by hand")
		}
		text := inline(entry)
		if n := len(s.value.Content) / 2; at < n-1 {
			text += ", "
		} else if at > 0 {
			text = ", " + text
		}
		return e.splice(s, at, entry, from, to, text)
	}
	from, to := e.lines(s, at)
	return e.splice(s, at, entry, e.atLine(from), e.atLine(to), e.indented(entry, s.value.Content[2*at].Column-1, e.step(s)))
}

// empty turns the section {} into one without a value, which the next change fills.
func (e *Edit) empty(s section) bool {
	from := e.offset(s.value)
	to := strings.IndexByte(e.text[from:], '}')
	if to < 0 || strings.Trim(e.text[from:from+to], "{ \t") != "" {
		return false
	}
	for from > 0 && e.text[from-1] == ' ' {
		from--
	}
	was := e.text
	e.text = e.text[:from] + e.text[strings.IndexByte(e.text[from:], '}')+from+1:]
	if root, err := Parse(e.name, []byte(e.text)); err == nil {
		e.root = root
		*s.value = *e.section(s.key.Value).value
		return true
	}
	e.text = was
	return false
}

// setInBraces puts an entry in front of the others.
func (e *Edit) setInBraces(s section, entry *yaml.Node) *Error {
	at := e.offset(s.value)
	if at >= len(e.text) || e.text[at] != '{' {
		return e.refuse(s.value, "cannot be edited: its brace is not known; edit it by hand")
	}
	want := clone(e.root)
	into := section{s.key, want.Content[e.position(s)+1]}
	into.value.Content = append(clone(entry).Content, into.value.Content...)
	return e.commit(e.text[:at+1]+inline(entry)+", "+e.text[at+1:], want, s.value)
}

// apply inserts an entry at the end of the section.
func (e *Edit) apply(s section, at int, entry *yaml.Node, offset int, text string) *Error {
	return e.splice(s, at, entry, offset, offset, e.lineEnd(offset)+text)
}

// lineEnd is the end of line that a file lacks whose last line has none, for text that begins there.
func (e *Edit) lineEnd(offset int) string {
	if offset == len(e.text) && e.text != "" && !strings.HasSuffix(e.text, "\n") {
		return e.eol()
	}
	return ""
}

// splice replaces a part of the text: the entry at an index by another one, or nil to remove it; index -1 appends.
func (e *Edit) splice(s section, at int, entry *yaml.Node, from, to int, text string) *Error {
	want := clone(e.root)
	if s.value == nil {
		want.Content = append(want.Content, s.key, entry)
		return e.commit(e.text[:from]+text+e.text[to:], want, e.root)
	}
	place := s.key
	if at >= 0 {
		place = s.value.Content[2*at]
	}
	value := want.Content[e.position(s)+1]
	if IsNull(value) {
		*value = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	switch {
	case entry == nil:
		value.Content = slices.Delete(value.Content, 2*at, 2*at+2)
	case at < 0:
		value.Content = append(value.Content, entry.Content...)
	default:
		value.Content = slices.Replace(value.Content, 2*at, 2*at+2, entry.Content...)
	}
	return e.commit(e.text[:from]+text+e.text[to:], want, place)
}

// position is the index of the section's key in the root.
func (e *Edit) position(s section) int {
	return slices.IndexFunc(e.root.Content, func(n *yaml.Node) bool { return n.Line == s.key.Line && n.Value == s.key.Value })
}

// commit takes a new text if its content is the intended one.
func (e *Edit) commit(text string, want, at *yaml.Node) *Error {
	root, err := Parse(e.name, []byte(text))
	switch {
	case err != nil && strings.Contains(err.Msg, "anchor"):
		return e.refuse(at, "cannot be edited: other parts of the file refer to an anchor in it (%s); edit it by hand", strings.TrimPrefix(err.Msg, "not valid YAML: "))
	case err != nil || !same(root, want):
		return e.refuse(at, "cannot be edited without changing something else; edit it by hand")
	}
	e.text, e.root = text, root
	return nil
}

// clone copies the content of a tree. Aliases refer to the copies.
func clone(n *yaml.Node) *yaml.Node {
	copies := make(map[*yaml.Node]*yaml.Node)
	var walk func(n *yaml.Node) *yaml.Node
	walk = func(n *yaml.Node) *yaml.Node {
		if n == nil || copies[n] != nil {
			return copies[n]
		}
		c := *n
		copies[n] = &c
		c.Alias, c.Content = walk(n.Alias), nil
		for _, child := range n.Content {
			c.Content = append(c.Content, walk(child))
		}
		return &c
	}
	return walk(n)
}

// same reports whether two trees have the same content, whatever its style and position. An empty mapping is the same as
// null.
func same(a, b *yaml.Node) bool {
	if empty := func(n *yaml.Node) bool { return IsNull(n) || n.Kind == yaml.MappingNode && len(n.Content) == 0 }; empty(a) && empty(b) {
		return a.Anchor == b.Anchor
	}
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Value != b.Value || a.Anchor != b.Anchor || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// offset is the byte at which a node begins.
func (e *Edit) offset(n *yaml.Node) int {
	at := e.atLine(n.Line)
	for i := 1; i < n.Column && at < len(e.text); i++ {
		_, size := utf8.DecodeRuneInString(e.text[at:])
		at += size
	}
	return at
}
