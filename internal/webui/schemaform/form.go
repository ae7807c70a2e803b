package schemaform

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/wire"
)

const (
	// MaxFields bounds the fields of one form, with those of the items of arrays.
	MaxFields = 300
	// maxFormItems bounds the items of one array in a form.
	maxFormItems = 50
	// maxFormOptions bounds the values among which a field chooses.
	maxFormOptions = 200
)

// Field is a field of a form, made from a schema.
type Field struct {
	Path                     string // the name of its element, and its id
	Name                     string // of the member; "" for the whole form and for items
	Title, Description, Type string
	Kind                     string // the template of its element, see the template "formfield"
	Required                 bool   // the object must have it
	Must                     bool   // and every object around it is there
	Value                    string // as it was typed
	Input                    string // the type of an input element
	Min, Max, Step           string
	Options                  []Option
	Fields                   []*Field // members, items, or the chosen schema
	Notes                    []string // constraints
	Problem                  string
	Focus                    bool // it has just been added

	nullable bool
	integer  bool
	format   string
}

// Option is one value of a field.
type Option struct {
	Value, Text string
	Selected    bool

	raw wire.Raw
}

// Form is a form for values of a schema.
type Form struct {
	Root *Field // nil if the schema is none that a form can show
	// Why says why there is no form.
	Why string
}

// The kinds of fields.
const (
	fieldObject = "object"
	fieldArray  = "array"
	fieldChoice = "choice" // of one schema among several
	fieldSelect = "select" // of one value
	fieldMany   = "many"   // of several values
	fieldText   = "text"
	fieldInput  = "input"
	fieldNumber = "number"
	fieldJSON   = "json"
)

// formMaker makes one form within the bounds of schemaReader.
type formMaker struct {
	schemaReader
	posted url.Values // nil for a new form
	focus  string     // the path of a field that was just added
}

// New returns a form for objects of a schema. The names of its elements begin with prefix. posted has what a
// person has typed, nil for a new form, which has the defaults. It takes any schema and any posted values.
func New(prefix string, schema wire.Value, posted url.Values) *Form {
	m := &formMaker{schemaReader: schemaReader{root: schema, left: MaxFields, steps: maxSchemaSteps}, posted: posted}
	if posted != nil {
		m.posted = url.Values{}
		for name, values := range posted {
			m.posted[name] = values
		}
		m.focus = m.rearrange()
	}
	root := m.field(prefix, "", schema, true, true, 0, wire.Value{})
	switch {
	case m.more:
		return &Form{Why: "The schema is too large or too deep for a form. Write the JSON."}
	case root.Kind != fieldObject && !(root.Kind == fieldChoice && allObjects(schema)):
		return &Form{Why: "The schema is none that a form can show. Write the JSON."}
	}
	return &Form{Root: root}
}

// allObjects reports whether every choice of a schema at the top is an object.
func allObjects(schema wire.Value) bool { return schema.Get("type").IsString("object") }

// Rearranged returns a form after one of its buttons was pressed, without the button.
func Rearranged(posted url.Values) url.Values {
	m := formMaker{posted: maps.Clone(posted)}
	m.rearrange()
	m.posted.Del("add")
	m.posted.Del("remove")
	m.posted.Del("show")
	return m.posted
}

// rearrange does what a button of the form asks for: an item more, or one less. It returns the path of the field that
// gets the focus.
func (m *formMaker) rearrange() (focus string) {
	if path := m.posted.Get("add"); path != "" {
		n := m.items(path)
		m.posted.Set(path+".n", strconv.Itoa(n+1))
		return path + "." + strconv.Itoa(n)
	}
	if path := m.posted.Get("show"); path != "" {
		return path
	}
	path, item, ok := cutLast(m.posted.Get("remove"))
	at, err := strconv.Atoi(item)
	n := m.items(path)
	if !ok || err != nil || at < 0 || at >= n {
		return ""
	}
	moved := url.Values{}
	for name, values := range m.posted {
		rest, inside := strings.CutPrefix(name, path+".")
		index, tail, _ := strings.Cut(rest, ".")
		i, err := strconv.Atoi(index)
		switch {
		case !inside || err != nil || i < at:
		case i == at:
			continue
		default:
			name = path + "." + strconv.Itoa(i-1)
			if len(index) < len(rest) {
				name += "." + tail
			}
		}
		moved[name] = values
	}
	moved.Set(path+".n", strconv.Itoa(n-1))
	m.posted = moved
	return path
}

func cutLast(path string) (before, last string, ok bool) {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		return "", "", false
	}
	return path[:at], path[at+1:], true
}

// items returns how many items the posted array at a path has.
func (m *formMaker) items(path string) int {
	n, err := strconv.Atoi(m.posted.Get(path + ".n"))
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxFormItems)
}

// field makes the field of a schema. given is the value that a default outside of the schema gives it.
func (m *formMaker) field(path, name string, schema wire.Value, required, must bool, depth int, given wire.Value) *Field {
	f := &Field{Path: path, Name: name, Required: required, Must: must, Focus: path == m.focus && path != ""}
	if m.left == 0 || depth > maxSchemaDepth || !m.step() {
		m.more = true
		f.Kind = fieldJSON
		return f
	}
	m.left--
	// A default deeper in something optional would have all of it sent, with members that a person did not choose.
	prefill := must || depth <= 1
	f.Title, f.Description = schema.Get("title").Str(), schema.Get("description").Str()
	if !given.Exists() && prefill {
		given = schema.Get("default")
	}
	schema, options, choices := m.simplify(f, schema, depth)
	f.Type = m.typeOf(schema, depth)
	if f.Title == "" {
		f.Title = schema.Get("title").Str()
	}
	if f.Description == "" {
		f.Description = schema.Get("description").Str()
	}
	if !given.Exists() && prefill {
		given = schema.Get("default")
	}
	f.Notes = constraintsOf(schema, given.Exists())
	switch {
	case options != nil:
		f.Kind = fieldSelect
		m.selectOne(f, options, given)
	case choices != nil:
		m.choose(f, choices, depth, given)
	default:
		m.plain(f, schema, depth, given)
	}
	return f
}

// constraintsOf returns the constraints of a schema in words. A default that the field has already is none.
func constraintsOf(schema wire.Value, filled bool) (notes []string) {
	for _, c := range constraints {
		if v := schema.Get(c.member); v.Exists() && !(filled && c.member == "default") && c.member != "const" {
			notes = append(notes, c.words+" "+plaintext.Clip(string(v.Raw()), 200))
		}
	}
	return notes
}

// plain makes the field of a schema with one type.
func (m *formMaker) plain(f *Field, schema wire.Value, depth int, given wire.Value) {
	t := schema.Get("type").Str()
	properties := schema.Get("properties")
	switch {
	case properties.Kind() == '{' && (t == "object" || t == ""):
		f.Kind = fieldObject
		m.members(f, schema, depth, given)
	case t == "object" && depth == 0 && !schema.Get("additionalProperties").Exists():
		f.Kind = fieldObject
	case t == "array" && schema.Get("items").Kind() == '{' && !schema.Get("prefixItems").Exists():
		m.array(f, schema, depth, given)
	case t == "string":
		m.text(f, schema, given)
	case t == "number" || t == "integer":
		f.Kind, f.Input, f.integer, f.Step = fieldNumber, "number", t == "integer", "any"
		if f.integer {
			f.Step = "1"
		}
		f.Min, f.Max = jsontext.Number(schema.Get("minimum")), jsontext.Number(schema.Get("maximum"))
		m.fill(f, given)
	default:
		f.Kind = fieldJSON
		m.fill(f, given)
		if m.posted == nil && given.Exists() {
			f.Value = jsontext.Editable(given.Raw())
		}
	}
}

// fill sets the text of a field.
func (m *formMaker) fill(f *Field, given wire.Value) {
	if m.posted != nil {
		f.Value = strings.ReplaceAll(m.posted.Get(f.Path), "\r\n", "\n")
	} else if given.Exists() && given.Kind() != 'n' {
		f.Value = plaintext.Clip(jsontext.Plain(given), jsontext.MaxShown)
	}
}

// inputs are the types of input elements by format.
var inputs = map[string]string{
	"date": "date", "time": "time", "date-time": "datetime-local", "email": "email", "idn-email": "email", "uri": "url", "url": "url", "password": "password",
}

// text makes the field of a string.
func (m *formMaker) text(f *Field, schema wire.Value, given wire.Value) {
	f.format = schema.Get("format").Str()
	f.Kind, f.Input = fieldInput, inputs[f.format]
	if f.Input == "" {
		f.Input = "text"
		if most, ok := schema.Get("maxLength").Int(); f.format == "" && (!ok || most > 200) {
			f.Kind = fieldText
		}
	}
	m.fill(f, given)
	if f.Input == "time" || f.Input == "datetime-local" {
		f.Step = "1"
		f.Notes = append(f.Notes, "in UTC")
		f.Value = strings.TrimSuffix(f.Value, "Z")
	}
}

// members makes the fields of an object.
func (m *formMaker) members(f *Field, schema wire.Value, depth int, given wire.Value) {
	required := schema.Required()
	seen, at := make(map[string]bool), 0
	for p := range schema.Get("properties").Members() {
		if m.more {
			return
		}
		name := p.Key.Str()
		if !seen[name] {
			seen[name] = true
			f.Fields = append(f.Fields, m.field(f.Path+"."+strconv.Itoa(at), name, p.Value, required[name], f.Must && required[name], depth+1, given.Get(name)))
		}
		at++
	}
}

// array makes the fields of the items of an array.
func (m *formMaker) array(f *Field, schema wire.Value, depth int, given wire.Value) {
	items := schema.Get("items")
	if options := optionsOf(m.resolve(items, depth)); options != nil && !m.resolve(items, depth).Get("type").IsString("boolean") {
		f.Kind = fieldMany
		var chosen []string
		for v := range given.Elements() {
			for _, o := range options {
				if jsontext.Same(o.raw, v.Raw()) {
					chosen = append(chosen, o.Value)
				}
			}
		}
		if m.posted != nil {
			chosen = m.posted[f.Path]
		}
		for i := range options {
			options[i].Selected = slices.Contains(chosen, options[i].Value)
		}
		f.Options = options
		return
	}
	f.Kind = fieldArray
	var values []wire.Value
	for v := range given.Elements() {
		if values = append(values, v); len(values) == maxFormItems {
			break
		}
	}
	n := len(values)
	if least, ok := schema.Get("minItems").Int(); ok && f.Must {
		n = max(n, int(max(0, min(least, 10))))
	}
	if m.posted != nil {
		n, values = m.items(f.Path), nil
	}
	for i := range n {
		if m.more {
			return
		}
		var v wire.Value
		if i < len(values) {
			v = values[i]
		}
		f.Fields = append(f.Fields, m.field(f.Path+"."+strconv.Itoa(i), "", items, true, true, depth+1, v))
	}
}
