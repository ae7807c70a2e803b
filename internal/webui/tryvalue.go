package webui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// value returns the JSON of what a person has filled in, and whether there is nothing to correct. Otherwise fields
// have their problems.
func (f *form) value() (wire.Raw, bool) {
	raw, ok := f.Root.value()
	if raw == nil {
		raw = wire.Raw("{}")
	}
	return raw, ok
}

// value returns the JSON of a field, nil if the field is left out.
func (f *formField) value() (raw wire.Raw, ok bool) {
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
func (f *formField) empty() (wire.Raw, bool) {
	if f.Required && f.nullable {
		return wire.Raw("null"), true
	}
	return nil, true
}

// withZone returns the text of a field. Times of browsers have no zone and may lack the seconds, which RFC 3339 requires.
func (f *formField) withZone() string {
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
func (f *formField) json() (wire.Raw, bool) {
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
	if v := valueOf(raw); f.Kind == fieldNumber && v.Kind() != '0' {
		f.Problem = "Write a number, such as 5."
		return nil, false
	} else if _, whole := v.Int(); f.integer && !whole && bytes.ContainsAny(raw, ".eE") {
		f.Problem = "Write a whole number, such as 5."
		return nil, false
	}
	return raw, true
}

func (f *formField) object() (wire.Raw, bool) {
	ok, some := true, false
	b := wire.Raw("{")
	var missing []*formField
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

func (f *formField) list() (wire.Raw, bool) {
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

func (f *formField) many() (wire.Raw, bool) {
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

// sameJSON reports whether two values have the same text, but for spaces.
func sameJSON(a, b wire.Raw) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return len(a) < maxRaw && len(b) < maxRaw && json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// spelled returns JSON for a person to edit. Invisible characters, which a page shows in another form, are escapes.
func spelled(raw wire.Raw) string {
	text := string(raw)
	if b, cut := indented(raw); !cut {
		text = b
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && !plaintext.IsInvisible(r) && r != '\u2028' && r != '\u2029':
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
