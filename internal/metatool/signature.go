package metatool

import (
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// Bounds on signatures.
const (
	maxSignature  = 320 // bytes, roughly
	maxTypeBytes  = 80  // of one parameter's type
	maxTypeDepth  = 2   // of objects and arrays within each other
	maxParameters = 40
)

// Signature returns the parameters of a tool in one line, as models read functions:
// (path: string, mode?: "r"|"w", tags?: string[]). Parameters with a question mark are optional.
// They are in the order of the schema, the required ones first. A long signature ends with "…".
//
// It differs from script.Stub, which scripts use, for two reasons. The arguments of call_tool are
// JSON: with the None and True of a stub, and defaults such as "= None", models write text that is no
// JSON, or null for a parameter that must be absent. A search returns many tools, so a signature
// has a fifth of the bytes and no types of members; a stub is the whole definition of one tool.
func Signature(schema wire.Value) string {
	s := signer{root: schema}
	needed := schema.Required()
	var b strings.Builder
	b.WriteByte('(')
	n := 0
	for _, required := range []bool{true, false} {
		for m := range schema.Get("properties").Members() {
			name := m.Key.Str()
			if needed[name] != required {
				continue
			}
			if n > 0 {
				b.WriteString(", ")
			}
			if n == maxParameters || b.Len() > maxSignature {
				return b.String() + "…)"
			}
			n++
			b.WriteString(oneLine(plaintext.Clip(name, maxNamed)))
			if !required {
				b.WriteByte('?')
			}
			if t := s.typeOf(m.Value, 0); t != "" {
				b.WriteString(": ")
				b.WriteString(oneLine(plaintext.Clip(t, maxTypeBytes)))
			}
		}
	}
	b.WriteByte(')')
	return b.String()
}

// oneLine replaces all white space by single spaces, and leaves out characters that nobody sees: a model
// need not obey what a person cannot read.
func oneLine(text string) string { return plaintext.Line(text, len(text)) }

// signer writes types of one schema.
type signer struct {
	root  wire.Value
	steps int
}

// maxSignedSteps bounds how many schemas a signature reads.
const maxSignedSteps = 500

// typeOf returns the type that a schema describes, "" if it says nothing.
func (s *signer) typeOf(schema wire.Value, depth int) string {
	if s.steps++; s.steps > maxSignedSteps || depth > maxTypeDepth {
		return ""
	}
	if target, ok := schema.Ref(s.root); ok {
		return s.typeOf(target, depth+1)
	}
	if values := schema.Get("enum"); values.Kind() == '[' {
		return s.union(values, func(v wire.Value) string { return string(v.Raw()) })
	}
	if v := schema.Get("const"); v.Exists() {
		return string(v.Raw())
	}
	for _, of := range []string{"anyOf", "oneOf"} {
		if any := schema.Get(of); any.Kind() == '[' {
			return s.union(any, func(v wire.Value) string { return s.typeOf(v, depth+1) })
		}
	}
	types := schema.Get("type")
	if types.Kind() == '[' {
		return s.union(types, func(v wire.Value) string { return v.Str() })
	}
	switch t := types.Str(); {
	case t == "array":
		if of := s.typeOf(schema.Get("items"), depth+1); of != "" && !strings.Contains(of, "|") {
			return of + "[]"
		} else if of != "" {
			return "(" + of + ")[]"
		}
		return "array"
	case t == "object" && depth < maxTypeDepth && schema.Get("properties").Kind() == '{':
		return s.object(schema)
	default:
		return t
	}
}

// object returns the type of an object: the names of its members.
func (s *signer) object(schema wire.Value) string {
	needed := schema.Required()
	var b strings.Builder
	b.WriteByte('{')
	for m := range schema.Get("properties").Members() {
		if b.Len() > 1 {
			b.WriteString(", ")
		}
		if b.Len() > maxTypeBytes {
			b.WriteString("…")
			break
		}
		b.WriteString(m.Key.Str())
		if !needed[m.Key.Str()] {
			b.WriteByte('?')
		}
	}
	b.WriteByte('}')
	return b.String()
}

// union joins the types of alternatives, each once.
func (s *signer) union(of wire.Value, text func(wire.Value) string) string {
	var b strings.Builder
	seen := make(map[string]bool)
	for el := range of.Elements() {
		t := text(el)
		if t == "" || seen[t] {
			continue
		}
		seen[t] = true
		if b.Len() > 0 {
			b.WriteByte('|')
		}
		if b.Len() > maxTypeBytes {
			b.WriteString("…")
			break
		}
		b.WriteString(t)
	}
	return b.String()
}
