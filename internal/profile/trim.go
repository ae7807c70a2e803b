package profile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpgateway/internal/wire"
)

// Trim says which parts of its items a profile leaves out of lists. The zero Trim leaves out
// nothing. Arguments and results are checked against the whole definition.
type Trim struct {
	// Description and SchemaDescriptions are the most characters of the description of an item,
	// and of one in a schema or of an argument of a prompt. 0 means no limit.
	Description, SchemaDescriptions int

	Examples     bool // leave out the examples in schemas
	Titles       bool // leave out titles, in schemas too
	OutputSchema bool // leave out the schemas of results
	Annotations  bool // leave out annotations
	Icons        bool // leave out icons
}

// maxDepth bounds how deep in a schema descriptions are shortened: each level is read once for
// each level above it.
const maxDepth = 32

// Item returns an item of a list, valid JSON, without what the profile leaves out. It is the
// same slice if that is nothing.
func (t *Trim) Item(item wire.Raw) wire.Raw {
	if *t == (Trim{}) {
		return item
	}
	e := wire.NewEdit(item)
	var drop []string
	for _, m := range []struct {
		drop bool
		name string
	}{{t.Titles, "title"}, {t.OutputSchema, "outputSchema"}, {t.Annotations, "annotations"}, {t.Icons, "icons"}} {
		if m.drop {
			drop = append(drop, m.name)
		}
	}
	e.Remove(e.Root(), drop...)
	for m := range e.Root().Members() {
		switch {
		case m.Is("description"):
			shorten(e, m.Value, t.Description)
		case m.Is("annotations") && t.Titles && !t.Annotations:
			e.Remove(m.Value, "title")
		case m.Is("arguments"):
			for argument := range m.Value.Elements() {
				t.argument(e, argument)
			}
		case m.Is("inputSchema"), m.Is("outputSchema") && !t.OutputSchema:
			t.schema(e, m.Value, maxDepth)
		}
	}
	return e.Bytes()
}

// argument trims an argument of a prompt.
func (t *Trim) argument(e *wire.Edit, argument wire.Value) {
	if t.Titles {
		e.Remove(argument, "title")
	}
	shorten(e, argument.Get("description"), t.SchemaDescriptions)
}

// schema trims a schema and the schemas in it, to a depth. Other members, such as default and
// const, hold values and not schemas.
func (t *Trim) schema(e *wire.Edit, schema wire.Value, depth int) {
	if depth == 0 || t.SchemaDescriptions == 0 && !t.Examples && !t.Titles || schema.Kind() != '{' {
		return
	}
	var drop []string
	if t.Titles {
		drop = append(drop, "title")
	}
	if t.Examples {
		drop = append(drop, "examples", "example")
	}
	e.Remove(schema, drop...)
	for m := range schema.Members() {
		switch m.Key.Str() {
		case "description":
			shorten(e, m.Value, t.SchemaDescriptions)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			for inside := range m.Value.Members() {
				t.schema(e, inside.Value, depth-1)
			}
		case "items", "prefixItems", "allOf", "anyOf", "oneOf":
			t.schema(e, m.Value, depth-1)
			for inside := range m.Value.Elements() {
				t.schema(e, inside, depth-1)
			}
		case "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains", "not", "if", "then", "else":
			t.schema(e, m.Value, depth-1)
		}
	}
}

// shorten shortens a text to at most limit characters; 0 means no limit.
func shorten(e *wire.Edit, text wire.Value, limit int) {
	if limit == 0 {
		return
	}
	if s, ok := text.Text(); ok && len(s) > limit && utf8.RuneCountInString(s) > limit {
		e.ReplaceString(text, cut(s, limit))
	}
}

// ellipsis stands at the end of a text that was cut.
const ellipsis = "…"

// cut returns the beginning of a text that is longer than limit characters, with an ellipsis: whole
// sentences if they are at least half of what fits, otherwise whole words, and else characters.
func cut(s string, limit int) string {
	end := 0 // of what fits beside the ellipsis
	for range limit - 1 {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	fits := s[:end]
	if i := sentenceEnd(fits); i >= len(fits)/2 {
		return s[:i] + ellipsis
	}
	next, _ := utf8.DecodeRuneInString(s[end:])
	if i := strings.LastIndexFunc(fits, unicode.IsSpace); i > 0 && !unicode.IsSpace(next) {
		fits = fits[:i]
	}
	return strings.TrimRightFunc(fits, unicode.IsSpace) + ellipsis
}

// sentenceEnd returns the index after the last sentence that ends in s, 0 for none: after the
// space behind a full stop, or after one of a script without spaces.
func sentenceEnd(s string) int {
	for end := len(s); end > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:end])
		before, _ := utf8.DecodeLastRuneInString(s[:end-size])
		if strings.ContainsRune("。！？", r) || (r == ' ' || r == '\n') && strings.ContainsRune(".!?", before) {
			return end
		}
		end -= size
	}
	return 0
}
