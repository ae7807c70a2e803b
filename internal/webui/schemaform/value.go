package schemaform

import (
	"bytes"
	"fmt"
	"strings"

	"mcpgateway/internal/wire"
)

// Value returns the JSON of what a person has filled in, and whether there is nothing to correct. Otherwise fields
// have their problems.
func (f *Form) Value() (wire.Raw, bool) {
	raw, ok := f.Root.value()
	if raw == nil {
		raw = wire.Raw("{}")
	}
	return raw, ok
}

// value returns the JSON of a field, nil if the field is left out.
func (f *Field) value() (raw wire.Raw, ok bool) {
	switch f.Kind {
	case fieldObject:
		return f.object()
	case fieldArray:
		return f.list()
	case fieldChoice:
		if len(f.Fields) > 0 {
			return f.Fields[0].value()
		}
	case fieldSelect:
		for _, o := range f.Options {
			if o.Selected {
				return o.raw, true
			}
		}
	case fieldMany:
		return f.many()
	case fieldText, fieldInput:
		if f.Value != "" {
			return wire.String(f.withZone()), true
		}
	default:
		return f.json()
	}
	return f.empty()
}

// empty returns the value of a field without one.
func (f *Field) empty() (wire.Raw, bool) {
	if f.Required && f.nullable {
		return wire.Raw("null"), true
	}
	return nil, true
}

// withZone returns the text of a field. Times of browsers have no zone and may lack the seconds, which RFC 3339 requires.
func (f *Field) withZone() string {
	if f.Input != "time" && f.Input != "datetime-local" || strings.ContainsAny(f.Value, "Z+") {
		return f.Value
	}
	text := f.Value
	if strings.Count(text, ":") == 1 {
		text += ":00"
	}
	return text + "Z"
}

// json returns the value of a field in which a person writes JSON: a number, or anything.
func (f *Field) json() (wire.Raw, bool) {
	raw := wire.Raw(strings.TrimSpace(f.Value))
	if len(raw) == 0 {
		return f.empty()
	}
	if err := wire.Check(raw, wire.Limits{}, wire.Strict); err != nil {
		f.Problem = fmt.Sprintf("This is no JSON: %v.", err)
		if f.Kind == fieldNumber {
			f.Problem = "Write a number, such as 5."
		}
		return nil, false
	}
	if v := wire.ValueOf(raw); f.Kind == fieldNumber && v.Kind() != '0' {
		f.Problem = "Write a number, such as 5."
		return nil, false
	} else if _, whole := v.Int(); f.integer && !whole && bytes.ContainsAny(raw, ".eE") {
		f.Problem = "Write a whole number, such as 5."
		return nil, false
	}
	return raw, true
}

func (f *Field) object() (wire.Raw, bool) {
	ok, some := true, false
	b := wire.Raw("{")
	var missing []*Field
	for _, m := range f.Fields {
		raw, good := m.value()
		ok = ok && good
		if raw == nil {
			if good && m.Required {
				missing = append(missing, m)
			}
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = append(append(wire.AppendString(b, m.Name), ':'), raw...)
	}
	if !f.Required && !some {
		return nil, ok
	}
	for _, m := range missing {
		m.Problem, ok = "Fill this in. To send an empty value, write the JSON.", false
	}
	return append(b, '}'), ok
}

func (f *Field) list() (wire.Raw, bool) {
	if len(f.Fields) == 0 && !f.Required {
		return nil, true
	}
	ok := true
	b := wire.Raw("[")
	for i, item := range f.Fields {
		raw, good := item.value()
		if good && raw == nil {
			item.Problem, good = "Fill this in, or remove it.", false
		}
		ok = ok && good
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, raw...)
	}
	return append(b, ']'), ok
}

func (f *Field) many() (wire.Raw, bool) {
	b, some := wire.Raw("["), false
	for _, o := range f.Options {
		if o.Selected {
			if some {
				b = append(b, ',')
			}
			some = true
			b = append(b, o.raw...)
		}
	}
	if !some && !f.Required {
		return nil, true
	}
	return append(b, ']'), true
}
