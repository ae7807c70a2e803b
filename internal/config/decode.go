package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// maxValues bounds how many values a file may have once its aliases and merges
// are expanded. A file of maxFile bytes without any has fewer in practice.
const maxValues = 200_000

// maxNamed bounds how many known keys an error about an unknown one lists.
const maxNamed = 8

// source is what a file is read with.
type source struct {
	file string                       // as errors name it
	dir  string                       // what relative paths in it are relative to
	env  func(string) (string, bool)  // the environment
	read func(string) ([]byte, error) // other files, within a bound

	conditions func(Condition) []Finding // nil: they are not checked
}

// decoder takes nodes apart into the structs of the schema. It goes on after a
// fault, so that all are found; a value with a fault keeps its default.
type decoder struct {
	source
	vars     expander
	budget   int  // values that may still be met
	hosts    bool // the file has the form of a host's configuration
	errs     Errors
	warnings []Warning

	data   []byte     // the file
	root   *yaml.Node // what is in it
	rules  []*placedRule
	parent *decoder // where faults go that are found after the file was read; nil: here
}

func newDecoder(src source) *decoder {
	return &decoder{source: src, vars: newExpander(src), budget: maxValues}
}

// checker is a struct of the schema with rules of its own, called after its
// mapping was decoded.
type checker interface {
	check(m *mapping)
}

// mapping is the place that a struct was decoded from, for its check.
type mapping struct {
	d     *decoder
	key   string     // the name that it stands under, where its list is keyed
	at    *yaml.Node // its key, or itself where there is none
	path  path
	given map[string]pair // what was written, by the schema's name of the key
	meant map[string]bool // keys that are not there, since they are misspelled
}

// has tells whether a key was written.
func (m *mapping) has(key string) bool { _, ok := m.given[key]; return ok }

// pos is the place of the mapping.
func (m *mapping) pos() Pos { return Pos{m.at.Line, m.at.Column} }

// errorf reports a fault at a key's value, or at the mapping if that key was
// not written.
func (m *mapping) errorf(key, format string, args ...any) {
	at, p := m.place(key)
	m.d.errorf(at, p, format, args...)
}

// warnf is errorf for a remark.
func (m *mapping) warnf(key, format string, args ...any) {
	at, p := m.place(key)
	m.d.warnf(at, p, format, args...)
}

func (m *mapping) place(key string) (*yaml.Node, path) {
	if g, ok := m.given[key]; ok {
		return g.value, m.path.key(g.name, key)
	}
	return m.at, m.path
}

func (d *decoder) errorf(at *yaml.Node, p path, format string, args ...any) {
	to := d
	if d.parent != nil {
		to = d.parent
	}
	if to.budget < 0 {
		return
	}
	to.errs = append(to.errs, &Error{d.file, at.Line, at.Column, p.text, fmt.Sprintf(format, args...)})
}

func (d *decoder) warnf(at *yaml.Node, p path, format string, args ...any) {
	to := d
	if d.parent != nil {
		to = d.parent
	}
	to.warnings = append(to.warnings, Warning{d.file, at.Line, at.Column, p.text, fmt.Sprintf(format, args...)})
}

// spend takes one value of the budget, and tells whether there was one left. The
// end of the budget is the last fault that is reported: what follows would only
// come of values that were left out.
func (d *decoder) spend(at *yaml.Node) bool {
	if d.budget == 0 {
		d.errorf(at, path{}, "the aliases of this file expand to more than %d values", maxValues)
	}
	d.budget--
	return d.budget >= 0
}

// structure decodes a mapping with known keys. at is the key that it stands
// under, name that key where the schema does not know it. It tells whether there
// was a mapping; null is an empty one.
func (d *decoder) structure(n, at *yaml.Node, p path, name string, v reflect.Value) bool {
	setDefaults(v)
	if n.Kind != yaml.MappingNode && !isNull(n) {
		d.errorf(n, p, "must be a mapping, not %s", kindWords(n))
		return false
	}
	m := &mapping{d: d, key: name, at: at, path: p, given: make(map[string]pair), meant: make(map[string]bool)}
	shape := shapeOf(v.Type())
	for _, pr := range d.pairs(n, p) {
		f := shape.byName[pr.name]
		if f == nil {
			m.meant[d.unknown(pr, p, shape)] = true
			continue
		}
		if first, twice := m.given[f.name]; twice {
			d.errorf(pr.key, p.key(pr.name, f.name), "means the same as %s at %d:%d; keep one of them",
				first.name, first.key.Line, first.key.Column)
			continue
		}
		if f.blank && pr.value.Kind == yaml.ScalarNode && pr.value.Tag == "!!str" && pr.value.Value == "" {
			continue
		}
		pr.value = f.unlisted(pr.value)
		m.given[f.name] = pr
		d.value(pr.value, pr.key, p.key(pr.name, f.name), f, v.FieldByIndex(f.index))
	}
	if c, ok := v.Addr().Interface().(checker); ok {
		c.check(m)
	}
	return true
}

// value decodes what stands under a key.
func (d *decoder) value(n, at *yaml.Node, p path, f *field, v reflect.Value) {
	switch {
	case f.keyed:
		d.keyed(n, p, v)
	case f.isStruct():
		d.structure(n, at, p, "", v)
	case f.typ.Kind() == reflect.Map:
		d.dictionary(n, p, f, v)
	case f.typ.Kind() == reflect.Slice:
		d.list(n, p, f, v)
	default:
		d.scalar(n, p, f, v)
	}
}

// unlisted returns the mapping that a plain list stands for, where the schema has a
// key that one may stand in for; else the value itself.
func (f *field) unlisted(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.SequenceNode || !f.isStruct() {
		return n
	}
	for _, inside := range shapeOf(f.typ).fields {
		if inside.listed {
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: inside.name, Line: n.Line, Column: n.Column}
			return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{key, n}, Line: n.Line, Column: n.Column}
		}
	}
	return n
}

// keyed decodes a mapping from names to mappings into a slice, in file order.
func (d *decoder) keyed(n *yaml.Node, p path, v reflect.Value) {
	if n.Kind == yaml.SequenceNode {
		hint := ""
		if p.pattern == "upstreams" && p.text != p.pattern { // as hosts call it
			hint = "; make a gateway.yaml of this file with gateway import"
		}
		d.errorf(n, p, "must be a mapping from names, such as {name: {…}}, not a list%s", hint)
		return
	}
	for _, pr := range d.pairs(n, p) {
		elem := reflect.New(v.Type().Elem()).Elem()
		if d.structure(pr.value, pr.key, p.key(pr.name, "*"), pr.name, elem) {
			v.Set(reflect.Append(v, elem))
		}
	}
}

// dictionary decodes a mapping from any names to secrets.
func (d *decoder) dictionary(n *yaml.Node, p path, f *field, v reflect.Value) {
	if n.Kind != yaml.MappingNode && !isNull(n) {
		d.errorf(n, p, "must be a mapping, such as {NAME: value}, not %s", kindWords(n))
		return
	}
	pairs := d.pairs(n, p)
	if len(pairs) == 0 {
		return
	}
	v.Set(reflect.MakeMapWithSize(f.typ, len(pairs)))
	elem := &field{name: f.name, typ: f.typ.Elem()}
	valid := entryFormats[f.format]()
	for _, pr := range pairs {
		ev := reflect.New(elem.typ).Elem()
		if !d.scalar(pr.value, p.key(pr.name, "*"), elem, ev) {
			continue
		}
		if err := valid(pr.name, ev.Interface().(Secret).Reveal()); err != nil {
			d.errorf(pr.key, p.key(pr.name, "*"), "%v", err)
			continue
		}
		v.SetMapIndex(reflect.ValueOf(pr.name), ev)
	}
}

// list decodes a sequence of scalars, or of mappings with known keys. An empty
// sequence replaces the default too.
func (d *decoder) list(n *yaml.Node, p path, f *field, v reflect.Value) {
	items := n.Content
	switch {
	case f.single && n.Kind == yaml.ScalarNode && !isNull(n):
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		if !isNull(n) {
			d.errorf(n, p, "must be a list, such as [a, b], not %s", kindWords(n))
		}
		return
	}
	out := reflect.MakeSlice(f.typ, 0, len(items))
	elem := &field{name: f.name, typ: f.typ.Elem(), format: f.format, enum: f.enum}
	for i, item := range items {
		item = resolve(item)
		if !d.spend(item) {
			return
		}
		ev := reflect.New(elem.typ).Elem()
		switch {
		case item == n:
			d.scalar(item, p, elem, ev)
		case !elem.isStruct():
			d.scalar(item, p.item(i), elem, ev)
		case item.Kind == yaml.ScalarNode && !isNull(item):
			d.shorthand(item, p.item(i), ev)
		default:
			d.structure(item, item, p.item(i), "", ev)
		}
		out = reflect.Append(out, ev)
	}
	if out.Len() == 0 && !f.hasDef {
		return // absent and empty are the same
	}
	v.Set(out)
}

// shorthand decodes a scalar in place of a mapping.
func (d *decoder) shorthand(n *yaml.Node, p path, v reflect.Value) {
	setDefaults(v)
	for _, f := range shapeOf(v.Type()).fields {
		if f.short {
			d.scalar(n, p, f, v.FieldByIndex(f.index))
			return
		}
	}
	d.errorf(n, p, "must be a mapping, not %s", kindWords(n))
}

// unknown reports a key that the schema does not have: an error, unless it is
// one that hosts write. It returns the key that was probably meant, or "".
func (d *decoder) unknown(pr pair, p path, s *shape) string {
	at := p.key(pr.name, pr.name)
	if slices.Contains(notYet, at.pattern) {
		d.errorf(pr.key, at, "not yet supported by this version; remove it")
		return ""
	}
	if hint, ok := foreign[at.pattern]; ok {
		d.meaningless(pr, at, hint)
		return ""
	}
	if p.pattern == "" && slices.Contains(abroad, pr.name) {
		if hasKey(d.root, "mcpServers", "servers") {
			d.meaningless(pr, at, "servers in it are read by gateway import only")
			return ""
		}
		d.errorf(pr.key, at, "holds servers in a host's own form; make a gateway.yaml of this file with gateway import")
		return "upstreams"
	}
	names := s.names()
	known := slices.Clone(names)
	for _, k := range notYet {
		if parent, name := cutLast(k); parent == p.pattern {
			known = append(known, name)
		}
	}
	near := nearest(pr.name, known)
	switch {
	case near != "":
		d.errorf(pr.key, at, "unknown key; did you mean %q?", near)
	case d.hosts && p.pattern == "":
		// Hosts keep much else in the file that has their servers.
		d.meaningless(pr, at, "")
	case p.pattern == "" && isServer(pr.value):
		d.errorf(pr.key, at, "unknown key; an upstream stands under upstreams, and is indented more than that")
		return "upstreams"
	case elsewhere()[pr.name] != "":
		d.errorf(pr.key, at, "unknown key; did you mean %s?", elsewhere()[pr.name])
	case len(names) <= maxNamed:
		d.errorf(pr.key, at, "unknown key; known here: %s", strings.Join(names, ", "))
	default:
		d.errorf(pr.key, at, "unknown key")
	}
	return near
}

// elsewhere are the keys that stand in one place of the schema alone, by the last part
// of their path.
var elsewhere = sync.OnceValue(func() map[string]string {
	paths := make(map[string]string)
	for _, k := range Keys() {
		_, name := cutLast(k.Path)
		if _, twice := paths[name]; twice {
			paths[name] = ""
		} else {
			paths[name] = k.Path
		}
	}
	return paths
})

func (d *decoder) meaningless(pr pair, at path, hint string) {
	if hint != "" {
		hint = "; " + hint
	}
	d.warnf(pr.key, at, "has no meaning here%s", hint)
}

// names are the keys of a mapping, without other spellings.
func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// cutLast splits a pattern into its parent and its last part.
func cutLast(pattern string) (parent, name string) {
	i := strings.LastIndexByte(pattern, '.')
	if i < 0 {
		return "", pattern
	}
	return pattern[:i], pattern[i+1:]
}
