package schemaform

import (
	"strconv"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/webui/jsontext"
	"mcpgateway/internal/wire"
)

// simplify follows references and schemas that only wrap another one. It returns the schema that is left, and the
// values or the schemas among which a person chooses.
func (m *formMaker) simplify(f *Field, schema wire.Value, depth int) (out wire.Value, options []Option, choices []wire.Value) {
	for range maxSchemaDepth {
		if !m.step() {
			break
		}
		schema = m.resolve(schema, depth)
		if options = optionsOf(schema); options != nil {
			return schema, options, nil
		}
		if schema.Get("properties").Kind() == '{' { // a choice beside it only restricts the members
			return schema, nil, nil
		}
		choices = nil
		for _, member := range []string{"anyOf", "oneOf", "allOf"} {
			for option := range schema.Get(member).Elements() {
				if m.resolve(option, depth).Get("type").IsString("null") {
					f.nullable = true
				} else if len(choices) < maxFormOptions {
					choices = append(choices, option)
				}
			}
			if len(choices) > 1 && member == "allOf" {
				return wire.Value{}, nil, nil // all of them at once: nothing but JSON shows that
			}
			if len(choices) > 0 {
				break
			}
		}
		if t := schema.Get("type"); len(choices) == 0 && t.Kind() == '[' {
			for one := range t.Elements() {
				if one.IsString("null") {
					f.nullable = true
				} else if len(choices) < 10 {
					choices = append(choices, wire.ValueOf(wire.SetMember(schema.Raw(), "type", one.Raw())))
				}
			}
		}
		if len(choices) != 1 {
			return schema, nil, choices
		}
		schema = choices[0]
	}
	return schema, nil, nil
}

// optionsOf returns the values that a schema allows if it lists them, nil otherwise.
func optionsOf(schema wire.Value) (options []Option) {
	add := func(v, title wire.Value) bool {
		text := title.Str()
		if text == "" {
			text = jsontext.Plain(v)
		}
		options = append(options, Option{Value: strconv.Itoa(len(options)), Text: plaintext.Clip(text, 200), raw: v.Raw()})
		return len(options) < maxFormOptions
	}
	if v := schema.Get("const"); v.Exists() {
		add(v, schema.Get("title"))
		return options
	}
	var names []wire.Value
	for name := range schema.Get("enumNames").Elements() {
		if names = append(names, name); len(names) == maxFormOptions {
			break
		}
	}
	for v := range schema.Get("enum").Elements() {
		var title wire.Value
		if len(options) < len(names) {
			title = names[len(options)]
		}
		if !add(v, title) {
			return nil
		}
	}
	if schema.Get("type").IsString("boolean") && options == nil {
		add(wire.ValueOf(wire.Raw("true")), wire.Value{})
		add(wire.ValueOf(wire.Raw("false")), wire.Value{})
	}
	if options != nil {
		return options
	}
	for _, member := range []string{"oneOf", "anyOf"} {
		for one := range schema.Get(member).Elements() {
			if v := one.Get("const"); !v.Exists() || !add(v, one.Get("title")) {
				return nil
			}
		}
		if options != nil {
			return options
		}
	}
	return nil
}

// selectOne makes the field choose among values.
func (m *formMaker) selectOne(f *Field, options []Option, given wire.Value) {
	chosen := -1
	for i, o := range options {
		if given.Exists() && jsontext.Same(o.raw, given.Raw()) {
			chosen = i
			break
		}
	}
	if chosen < 0 && f.Must && len(options) == 1 {
		chosen = 0
	}
	f.Value = ""
	if chosen >= 0 {
		f.Value = strconv.Itoa(chosen)
	}
	if m.posted != nil {
		f.Value = m.posted.Get(f.Path)
	}
	for i := range options {
		options[i].Selected = options[i].Value == f.Value
	}
	f.Options = options
}

// choose makes the field choose among schemas. Only the chosen one has fields.
func (m *formMaker) choose(f *Field, choices []wire.Value, depth int, given wire.Value) {
	f.Kind = fieldChoice
	chosen := -1
	if f.Must {
		chosen = 0
	}
	for i, c := range choices {
		text := c.Get("title").Str()
		if text == "" {
			text = m.typeOf(m.resolve(c, depth), depth)
		}
		if text == "" {
			text = "choice " + strconv.Itoa(i+1)
		}
		f.Options = append(f.Options, Option{Value: strconv.Itoa(i), Text: plaintext.Clip(text, 120)})
		if given.Exists() && fits(m.resolve(c, depth), given) && (chosen < 0 || !fits(m.resolve(choices[chosen], depth), given)) {
			chosen = i
		}
	}
	if m.posted != nil {
		if i, err := strconv.Atoi(m.posted.Get(f.Path + ".c")); err == nil && i >= 0 && i < len(choices) {
			chosen = i
		} else {
			chosen = -1
		}
	}
	if chosen < 0 {
		return
	}
	f.Options[chosen].Selected = true
	f.Fields = append(f.Fields, m.field(f.Path+".o"+strconv.Itoa(chosen), "", choices[chosen], f.Required, f.Must, depth+1, given))
}

// fits reports whether a value has the type of a schema.
func fits(schema, v wire.Value) bool {
	t := schema.Get("type").Str()
	switch v.Kind() {
	case '{':
		return t == "object"
	case '[':
		return t == "array"
	case '"':
		return t == "string"
	case '0':
		return t == "number" || t == "integer"
	case 't', 'f':
		return t == "boolean"
	}
	return false
}
