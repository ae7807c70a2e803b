package schemaform

import (
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/wire"
)

const (
	// MaxProperties bounds the properties of one schema on a page.
	MaxProperties = 300
	// maxSchemaDepth bounds how deep they nest, through references too.
	maxSchemaDepth = 6
	// maxSchemaSteps bounds the schemas that are looked at for that.
	maxSchemaSteps = 5000
	// maxEnum bounds the values of one property.
	maxEnum = 30
)

// Property is one property of a schema, in words.
type Property struct {
	Name, Type, Title, Description string
	Required                       bool
	Notes                          []string // its constraints
	Values                         []string // of an enum
	Fields                         []Property
}

// constraints are the members of a schema that restrict its values, in words.
var constraints = []struct{ member, words string }{
	{"default", "default"}, {"const", "always"}, {"minimum", "at least"}, {"maximum", "at most"}, {"exclusiveMinimum", "more than"}, {"exclusiveMaximum", "less than"},
	{"multipleOf", "a multiple of"}, {"minLength", "characters, at least"}, {"maxLength", "characters, at most"}, {"minItems", "items, at least"}, {"maxItems", "items, at most"}, {"pattern", "pattern"},
}

// schemaReader reads one schema within bounds.
type schemaReader struct {
	root wire.Value
	left int // properties that may still be shown
	// steps are how many schemas may still be looked at. References make few schemas many.
	steps int
	more  bool
}

// step reports whether another schema may be looked at.
func (s *schemaReader) step() bool {
	if s.steps == 0 {
		s.more = true
		return false
	}
	s.steps--
	return true
}

// View is a schema for a person.
type View struct {
	Title  string
	Fields []Property
	More   bool // it is larger than what is shown
	Empty  string
}

// Describe returns a schema for a person. empty says what a schema without properties means.
func Describe(title string, schema wire.Value, empty string) View {
	s := schemaReader{root: schema, left: MaxProperties, steps: maxSchemaSteps}
	return View{Title: title, Fields: s.fields(s.resolve(schema, 0), 0), More: s.more, Empty: empty}
}

// DescribeArguments returns the arguments of a prompt.
func DescribeArguments(list wire.Value) View {
	v := View{Title: "Arguments", Empty: "It takes no arguments."}
	for arg := range list.Elements() {
		if len(v.Fields) == MaxProperties {
			v.More = true
			break
		}
		v.Fields = append(v.Fields, Property{
			Name: arg.Get("name").Str(), Type: "string", Title: arg.Get("title").Str(), Description: arg.Get("description").Str(), Required: arg.Get("required").Bool(),
		})
	}
	return v
}

// fields returns the properties of an object, or of the elements of an array.
func (s *schemaReader) fields(schema wire.Value, depth int) (all []Property) {
	if depth > maxSchemaDepth || !s.step() {
		s.more = true
		return nil
	}
	required := schema.Required()
	for m := range schema.Get("properties").Members() {
		if s.left == 0 {
			s.more = true
			return all
		}
		s.left--
		name := m.Key.Str()
		all = append(all, s.field(name, required[name], m.Value, depth))
	}
	return all
}

// field describes one property.
func (s *schemaReader) field(name string, required bool, schema wire.Value, depth int) Property {
	schema = s.resolve(schema, depth)
	f := Property{Name: name, Type: s.typeOf(schema, depth), Required: required, Title: schema.Get("title").Str(), Description: schema.Get("description").Str()}
	for _, c := range constraints {
		if v := schema.Get(c.member); v.Exists() {
			f.Notes = append(f.Notes, c.words+" "+plaintext.Clip(string(v.Raw()), 200))
		}
	}
	for v := range schema.Get("enum").Elements() {
		if len(f.Values) == maxEnum {
			f.Values = append(f.Values, "…")
			break
		}
		f.Values = append(f.Values, plaintext.Clip(jsontext.Plain(v), 120))
	}
	inner := schema
	if items := s.resolve(schema.Get("items"), depth); items.Kind() == '{' {
		inner = items
	}
	if f.Fields = s.fields(inner, depth+1); f.Fields == nil {
		for _, choice := range []string{"anyOf", "oneOf", "allOf"} {
			for option := range schema.Get(choice).Elements() {
				if s.steps == 0 {
					break
				}
				f.Fields = append(f.Fields, s.fields(s.resolve(option, depth), depth+1)...)
			}
		}
	}
	return f
}

// typeOf returns the type of a schema in words.
func (s *schemaReader) typeOf(schema wire.Value, depth int) string {
	if depth > maxSchemaDepth || !s.step() {
		return "…"
	}
	var words []string
	switch t := schema.Get("type"); t.Kind() {
	case '"':
		words = append(words, t.Str())
	case '[':
		for one := range t.Elements() {
			words = append(words, one.Str())
		}
	default:
		for _, choice := range []string{"anyOf", "oneOf"} {
			for option := range schema.Get(choice).Elements() {
				if len(words) == maxEnum {
					break
				}
				if word := s.typeOf(s.resolve(option, depth), depth+1); word != "" {
					words = append(words, word)
				}
			}
		}
	}
	text := strings.Join(words, " or ")
	if items := s.resolve(schema.Get("items"), depth); text == "array" && items.Kind() == '{' {
		if of := s.typeOf(items, depth+1); of != "" {
			text = "array of " + of
		}
	}
	if format := schema.Get("format").Str(); format != "" {
		text = strings.TrimSpace(text + " (" + format + ")")
	}
	return plaintext.Clip(text, 120)
}

// resolve follows references inside the same schema. Others are left alone.
func (s *schemaReader) resolve(schema wire.Value, depth int) wire.Value {
	for range maxSchemaDepth - min(depth, maxSchemaDepth) {
		target, _ := schema.Ref(s.root)
		if !target.Exists() {
			break
		}
		schema = target
	}
	return schema
}
