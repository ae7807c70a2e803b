package console

import (
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mcpgateway/internal/wire"
)

// field is one property of an elicitation's schema (2025-11-25,
// client/elicitation, "Requested Schema"): a primitive, or a list of choices.
type field struct {
	name     string
	schema   wire.Value
	kind     string // string, number, integer, boolean or array
	required bool
	options  []option // the allowed values, if they are enumerated
}

type option struct{ value, title string }

// fieldsOf reads the properties of a schema in their order.
func fieldsOf(schema wire.Value) []*field {
	required := schema.Required()
	var fields []*field
	for m := range schema.Get("properties").Members() {
		f := &field{name: m.Key.Str(), schema: m.Value, kind: m.Value.Get("type").Str()}
		f.required = required[f.name]
		choices := m.Value
		if f.kind == "array" {
			choices = m.Value.Get("items")
		}
		f.options = optionsOf(choices)
		fields = append(fields, f)
	}
	return fields
}

// optionsOf reads the allowed values, in each form of the specification.
func optionsOf(schema wire.Value) []option {
	var out []option
	for _, form := range []string{"oneOf", "anyOf"} {
		for o := range schema.Get(form).Elements() {
			if value, ok := o.Get("const").Text(); ok {
				title, named := o.Get("title").Text()
				if !named {
					title = value
				}
				out = append(out, option{value, title})
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	var names []string
	for n := range schema.Get("enumNames").Elements() {
		names = append(names, n.Str())
	}
	for v := range schema.Get("enum").Elements() {
		o := option{v.Str(), v.Str()}
		if len(out) < len(names) {
			o.title = names[len(out)]
		}
		out = append(out, o)
	}
	return out
}

// label is the name of a field for people.
func (f *field) label() string {
	if title, ok := f.schema.Get("title").Text(); ok && title != "" {
		return Line(title)
	}
	return Line(f.name)
}

// about is the description of a field.
func (f *field) about() string { return Line(f.schema.Get("description").Str()) }

// hint describes the valid input.
func (f *field) hint() string {
	var parts []string
	switch {
	case len(f.options) > 0 && f.kind == "array":
		parts = append(parts, "numbers, separated by commas")
	case len(f.options) > 0:
		parts = append(parts, "a number")
	case f.kind == "boolean":
		parts = append(parts, "y or n")
	case f.kind == "integer":
		parts = append(parts, "a whole number")
	case f.kind == "number":
		parts = append(parts, "a number")
	case f.schema.Get("format").Exists():
		parts = append(parts, Line(f.schema.Get("format").Str()))
	}
	if d := f.schema.Get("default"); d.Exists() {
		text, ok := d.Text()
		if !ok {
			text = string(d.Raw())
		}
		parts = append(parts, "enter for "+Line(text))
	} else if !f.required {
		parts = append(parts, "enter for nothing")
	}
	if len(parts) == 0 {
		return ">"
	}
	return "(" + strings.Join(parts, "; ") + ")>"
}

// parse is the value of an input, nil for no value. Its error describes the valid input.
func (f *field) parse(text string) (wire.Raw, error) {
	if text == "" {
		switch d := f.schema.Get("default"); {
		case d.Exists():
			return d.Raw(), nil
		case f.required:
			return nil, errors.New("this field is required")
		}
		return nil, nil
	}
	switch {
	case f.kind == "array":
		return f.several(text)
	case len(f.options) > 0:
		value, err := f.pick(text)
		return wire.String(value), err
	case f.kind == "boolean":
		return yesNo(text)
	case f.kind == "integer" || f.kind == "number":
		return f.number(text)
	}
	return f.text(text)
}

func yesNo(text string) (wire.Raw, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "true":
		return wire.Raw("true"), nil
	case "n", "no", "false":
		return wire.Raw("false"), nil
	}
	return nil, errors.New("y or n")
}

// pick finds an option by its number, value or title.
func (f *field) pick(text string) (string, error) {
	if i, err := strconv.Atoi(text); err == nil && i >= 1 && i <= len(f.options) {
		return f.options[i-1].value, nil
	}
	for _, o := range f.options {
		if text == o.value || strings.EqualFold(text, o.title) {
			return o.value, nil
		}
	}
	return "", fmt.Errorf("a number from 1 to %d", len(f.options))
}

func (f *field) several(text string) (wire.Raw, error) {
	var values []string
	for _, word := range strings.Split(text, ",") {
		value, err := f.pick(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	n := int64(len(values))
	if low, ok := f.schema.Get("minItems").Int(); ok && n < low {
		return nil, fmt.Errorf("at least %d", low)
	}
	if high, ok := f.schema.Get("maxItems").Int(); ok && n > high {
		return nil, fmt.Errorf("at most %d", high)
	}
	return wire.Strings(values), nil
}

func (f *field) number(text string) (wire.Raw, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.ContainsAny(text, "xXpP_nNiI") {
		return nil, errors.New("a number, such as 12")
	}
	raw := wire.Raw(strconv.FormatFloat(n, 'f', -1, 64))
	if f.kind == "integer" { // a float would lose digits
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("a whole number, such as 12")
		}
		raw = strconv.AppendInt(nil, i, 10)
	}
	for _, bound := range []struct {
		name  string
		wrong func(limit float64) bool
		words string
	}{
		{"minimum", func(l float64) bool { return n < l }, "at least "},
		{"maximum", func(l float64) bool { return n > l }, "at most "},
	} {
		limit := f.schema.Get(bound.name)
		if l, err := strconv.ParseFloat(string(limit.Raw()), 64); err == nil && bound.wrong(l) {
			return nil, errors.New(bound.words + string(limit.Raw()))
		}
	}
	return raw, nil
}

func (f *field) text(text string) (wire.Raw, error) {
	length := int64(utf8.RuneCountInString(text))
	if low, ok := f.schema.Get("minLength").Int(); ok && length < low {
		return nil, fmt.Errorf("at least %d characters", low)
	}
	if high, ok := f.schema.Get("maxLength").Int(); ok && length > high {
		return nil, fmt.Errorf("at most %d characters", high)
	}
	var err error
	switch f.schema.Get("format").Str() {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err != nil || a.Address != text {
			err = errors.New("an address, such as me@example.com")
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err != nil || !u.IsAbs() {
			err = errors.New("a URI, such as https://example.com")
		}
	case "date":
		if _, err = time.Parse(time.DateOnly, text); err != nil {
			err = errors.New("a date, such as 2026-01-31")
		}
	case "date-time":
		if _, err = time.Parse(time.RFC3339, text); err != nil {
			err = errors.New("a time, such as 2026-01-31T12:00:00Z")
		}
	}
	if err != nil {
		return nil, err
	}
	return wire.String(text), nil
}
