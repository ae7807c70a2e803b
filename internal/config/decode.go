package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"mcpgateway/internal/configfile"
	"mcpgateway/internal/plaintext"
)

// maxNamed bounds how many known keys an error about an unknown one lists.
const maxNamed = 8

// source is a file and the environment that it is read in.
type source struct {
	file string                       // the name in errors
	dir  string                       // the folder of relative paths
	env  func(string) (string, bool)  // looks up environment variables
	read func(string) ([]byte, error) // reads other files, up to a bound

	conditions func(Condition) []Finding // checks conditions, if it is not nil
}

// decoder decodes the nodes of one file into the structs of the schema. It continues after an
// error, so that all errors are found; a value with an error keeps its default.
type decoder struct {
	source
	configfile.Reader
	vars  expander
	unset *[]UnsetVariable // in the upstream that is decoded
	hosts bool             // the file has the form of a host's configuration

	data  []byte          // the file
	root  *yaml.Node      // its content
	rules *[]*locatedRule // of the configuration and its rule files

	profiles []*mapping        // in file order
	settings []configfile.Pair // of a host, beside its servers
}

func newDecoder(src source, root *yaml.Node, data []byte) *decoder {
	return &decoder{
		source: src, Reader: configfile.Reader{File: src.file, Report: configfile.NewReport()}, vars: newExpander(src),
		root: root, data: data, rules: new([]*locatedRule), unset: new([]UnsetVariable),
	}
}

// ofFile returns a decoder for another file of the same configuration.
func (d *decoder) ofFile(name string, root *yaml.Node, data []byte) *decoder {
	other := *d
	other.file, other.File, other.dir = name, name, filepath.Dir(name)
	other.vars.src = other.source
	other.vars.src.env = d.vars.src.env // with the variables of env_file
	other.root, other.data = root, data
	return &other
}

// checker is a struct of the schema with further rules. check is called after its mapping was decoded.
type checker interface {
	check(m *mapping)
}

// mapping is the mapping that a struct was decoded from, for its check.
type mapping struct {
	d        *decoder
	key      string     // its name in a keyed list
	at       *yaml.Node // its key, or the mapping itself if it has no key
	path     configfile.Path
	given    map[string]configfile.Pair // the keys in the file, by their names in the schema
	intended map[string]bool            // keys that are missing because they are misspelled
}

// has reports whether a key is in the file.
func (m *mapping) has(key string) bool { _, ok := m.given[key]; return ok }

// pos is the position of the mapping.
func (m *mapping) pos() Pos { return configfile.PosOf(m.at) }

// errorf reports an error at the value of a key, or at the mapping if the key is missing.
func (m *mapping) errorf(key, format string, args ...any) {
	at, p := m.place(key)
	m.d.Errorf(at, p, format, args...)
}

// warnf is errorf for a warning.
func (m *mapping) warnf(key, format string, args ...any) {
	at, p := m.place(key)
	m.d.Warnf(at, p, format, args...)
}

// placeError is the place of errorf, an Error without a message.
func (m *mapping) placeError(key string) Error {
	at, p := m.place(key)
	return Error{File: m.d.file, Line: at.Line, Col: at.Column, Path: p.Text}
}

func (m *mapping) place(key string) (*yaml.Node, configfile.Path) {
	if g, ok := m.given[key]; ok {
		return g.Value, m.path.Key(g.Name, key)
	}
	return m.at, m.path
}

// structure decodes a mapping with known keys. at is the node of its key, name that key if it is
// a name of the user. It reports whether there is a mapping; null is an empty one.
func (d *decoder) structure(n, at *yaml.Node, p configfile.Path, name string, v reflect.Value) bool {
	setDefaults(v)
	if n.Kind != yaml.MappingNode && !configfile.IsNull(n) {
		d.Errorf(n, p, "must be a mapping, not %s", configfile.KindOf(n))
		return false
	}
	m := &mapping{d: d, key: name, at: at, path: p, given: make(map[string]configfile.Pair), intended: make(map[string]bool)}
	shape := shapeOf(v.Type())
	for _, pr := range d.Pairs(n, p) {
		f := shape.byName[pr.Name]
		if f == nil {
			m.intended[d.unknown(pr, p, shape)] = true
			continue
		}
		if first, twice := m.given[f.name]; twice {
			d.Errorf(pr.Key, p.Key(pr.Name, f.name), "means the same as %s at %d:%d; keep one of them",
				first.Name, first.Key.Line, first.Key.Column)
			continue
		}
		if f.blank && pr.Value.Kind == yaml.ScalarNode && pr.Value.Tag == "!!str" && pr.Value.Value == "" {
			continue
		}
		if at := p.Key(pr.Name, f.name); d.hosts && at.Pattern == "upstreams.*.timeout" && isNumber(pr.Value) {
			d.withoutEffect(pr, at, "hosts do not agree on its unit: write timeout with one, such as 60s")
			continue
		}
		pr.Value = f.unlisted(pr.Value)
		m.given[f.name] = pr
		d.value(pr.Value, pr.Key, p.Key(pr.Name, f.name), f, v.FieldByIndex(f.index))
	}
	if c, ok := v.Addr().Interface().(checker); ok {
		c.check(m)
	}
	return true
}

// value decodes the value of a key.
func (d *decoder) value(n, at *yaml.Node, p configfile.Path, f *field, v reflect.Value) {
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

// unlisted returns the mapping that a plain list abbreviates, if a key of the schema allows that;
// else the value itself.
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

// keyed decodes a mapping of names to mappings into a slice, in file order.
func (d *decoder) keyed(n *yaml.Node, p configfile.Path, v reflect.Value) {
	if n.Kind == yaml.SequenceNode {
		hint := ""
		if p.Pattern == "upstreams" && p.Text != p.Pattern { // written as mcpServers or servers
			hint = "; " + makeOne
		}
		d.Errorf(n, p, "must be a mapping from names, such as {name: {…}}, not a list%s", hint)
		return
	}
	for _, pr := range d.Pairs(n, p) {
		elem := reflect.New(v.Type().Elem()).Elem()
		if d.structure(pr.Value, pr.Key, p.Key(pr.Name, "*"), pr.Name, elem) {
			v.Set(reflect.Append(v, elem))
		}
	}
}

// dictionary decodes a mapping of any names to secrets.
func (d *decoder) dictionary(n *yaml.Node, p configfile.Path, f *field, v reflect.Value) {
	if n.Kind != yaml.MappingNode && !configfile.IsNull(n) {
		d.Errorf(n, p, "must be a mapping, such as {NAME: value}, not %s", configfile.KindOf(n))
		return
	}
	pairs := d.Pairs(n, p)
	if len(pairs) == 0 {
		return
	}
	v.Set(reflect.MakeMapWithSize(f.typ, len(pairs)))
	elem := &field{name: f.name, typ: f.typ.Elem()}
	valid := entryFormats[f.format]()
	for _, pr := range pairs {
		ev := reflect.New(elem.typ).Elem()
		before := len(*d.unset)
		if !d.scalar(pr.Value, p.Key(pr.Name, "*"), elem, ev) {
			for i := range (*d.unset)[before:] {
				v := &(*d.unset)[before+i]
				v.Entry, v.known = pr.Name, ev.Interface().(Secret)
			}
			continue
		}
		if err := valid(pr.Name, ev.Interface().(Secret).Reveal()); err != nil {
			d.Errorf(pr.Key, p.Key(pr.Name, "*"), "%v", err)
			continue
		}
		if strings.HasSuffix(f.format, "headers") {
			d.warnOfEmptyHeader(pr.Value, p.Key(pr.Name, "*"), ev.Interface().(Secret).Reveal())
		}
		v.SetMapIndex(reflect.ValueOf(pr.Name), ev)
	}
}

// list decodes a sequence of scalars, or of mappings with known keys. An empty sequence also replaces
// the default.
func (d *decoder) list(n *yaml.Node, p configfile.Path, f *field, v reflect.Value) {
	items := n.Content
	switch {
	case f.single && n.Kind == yaml.ScalarNode && !configfile.IsNull(n):
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		if !configfile.IsNull(n) {
			d.Errorf(n, p, "must be a list, such as [a, b], not %s", configfile.KindOf(n))
		}
		return
	}
	out := reflect.MakeSlice(f.typ, 0, len(items))
	elem := &field{name: f.name, typ: f.typ.Elem(), format: f.format, enum: f.enum}
	for i, item := range items {
		item = configfile.Resolve(item)
		if !d.Spend(item) {
			return
		}
		ev := reflect.New(elem.typ).Elem()
		switch {
		case item == n:
			d.scalar(item, p, elem, ev)
		case !elem.isStruct():
			d.scalar(item, p.Item(i), elem, ev)
		case item.Kind == yaml.ScalarNode && !configfile.IsNull(item):
			if !d.shorthand(item, p.Item(i), ev) {
				continue
			}
		case !d.structure(item, item, elementPath(p, i, item, elem), "", ev):
			continue
		}
		out = reflect.Append(out, ev)
	}
	if out.Len() == 0 && !f.hasDef {
		return // a missing list is the same as an empty one
	}
	v.Set(out)
}

// shorthand decodes a scalar in place of a mapping. It reports whether the mapping may be abbreviated.
func (d *decoder) shorthand(n *yaml.Node, p configfile.Path, v reflect.Value) bool {
	setDefaults(v)
	for _, f := range shapeOf(v.Type()).fields {
		if f.short {
			d.scalar(n, p, f, v.FieldByIndex(f.index))
			return true
		}
	}
	d.Errorf(n, p, "must be a mapping, not %s", configfile.KindOf(n))
	return false
}

// unknown reports a key that the schema does not have: an error, unless hosts write it. It returns the
// key that the user probably meant, or "".
func (d *decoder) unknown(pr configfile.Pair, p configfile.Path, s *shape) string {
	at := p.Key(pr.Name, pr.Name)
	if hint, ok := hostKeys[at.Pattern]; ok {
		d.withoutEffect(pr, at, hint)
		return ""
	}
	if p.Pattern == "" && (slices.Contains(hostServerKeys, pr.Name) || pr.Name == gooseKey && IsGoose(pr.Value)) {
		if hasKey(d.root, "mcpServers", "servers") {
			d.withoutEffect(pr, at, "servers in it are read by gateway import only")
			return ""
		}
		d.Errorf(pr.Key, at, "holds servers in a host's own form; %s", makeOne)
		return "upstreams"
	}
	names := s.names()
	near := plaintext.Nearest(pr.Name, names)
	if as, ok := otherNames[pr.Name]; ok && slices.Contains(names, as) {
		near = as
	}
	switch {
	case near != "":
		d.Errorf(pr.Key, at, "unknown key; did you mean %q?", near)
	case d.hosts && p.Pattern == "":
		// Hosts have other settings in the same file.
		d.settings = append(d.settings, pr)
	case p.Pattern == "" && IsServer(pr.Value):
		d.Errorf(pr.Key, at, "unknown key; write an upstream below upstreams, indented more than that")
		return "upstreams"
	case s.choice(pr.Name) != "":
		d.Errorf(pr.Key, at, "unknown key; did you mean %s: %s?", s.choice(pr.Name), pr.Name)
	case elsewhere(at.Pattern) != "":
		d.Errorf(pr.Key, at, "unknown key; did you mean %s?", elsewhere(at.Pattern))
	case len(names) <= maxNamed:
		d.Errorf(pr.Key, at, "unknown key; known here: %s", strings.Join(names, ", "))
	default:
		d.Errorf(pr.Key, at, "unknown key")
	}
	return near
}

// otherNames are keys that other programs have for the same, such as Goose.
var otherNames = map[string]string{"cmd": "command"}

// elsewhere says where an unknown key is known: the only place in the schema that has its name, or the same path of an
// upstream or a profile. It returns "" for none.
func elsewhere(pattern string) string {
	_, name := cutLast(pattern)
	places := placesByName()[name]
	if len(places) > 1 {
		places = slices.DeleteFunc(slices.Clone(places), func(place string) bool {
			return place != "upstreams.*."+pattern && place != "profiles.*."+pattern
		})
	}
	return strings.ReplaceAll(strings.Join(places, " or "), ".*", ".NAME")
}

// placesByName are the paths of all keys, by the last part of the path.
var placesByName = sync.OnceValue(func() map[string][]string {
	places := make(map[string][]string)
	for _, k := range Keys() {
		_, name := cutLast(k.Path)
		places[name] = append(places[name], k.Path)
	}
	return places
})

func (d *decoder) withoutEffect(pr configfile.Pair, at configfile.Path, hint string) {
	if hint != "" {
		hint = "; " + hint
	}
	d.Warnf(pr.Key, at, "has no effect here%s", hint)
}

// settingsWithoutEffect warns of the settings of a host: of all in one warning, since some hosts have dozens.
func (d *decoder) settingsWithoutEffect() {
	if len(d.settings) == 0 {
		return
	}
	first, others := d.settings[0], d.settings[1:]
	at := configfile.Path{}.Key(first.Name, first.Name)
	if len(others) == 0 {
		d.withoutEffect(first, at, "")
		return
	}
	var names []string
	for _, pr := range others[:min(len(others), 3)] {
		names = append(names, configfile.Quote(pr.Name))
	}
	more := ""
	if n := len(others) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	d.Warnf(first.Key, at, "has no effect here, and neither have the other settings of the host: %s%s", strings.Join(names, ", "), more)
}

// choice returns the key that has a value among its choices, "" if none has.
func (s *shape) choice(value string) string {
	for _, f := range s.fields {
		if value != "" && slices.Contains(f.enum, value) {
			return f.name
		}
	}
	return ""
}

// names are the keys of a mapping, without aliases.
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
