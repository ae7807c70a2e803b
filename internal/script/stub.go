package script

import (
	"fmt"
	"strings"

	"mcpgateway/internal/wire"
)

const (
	maxType        = 400 // bytes of a type
	maxTypeDepth   = 5   // levels of objects in a type
	maxChoices     = 12  // values of an enum
	maxParameters  = 40
	maxDescription = 1500 // bytes of a description
	maxRefs        = 100  // references that one stub follows
)

// Stub returns the signature of a tool as a script calls it, with its description and those
// of its parameters. definition is the tool as lists have it.
//
//	files__read(path: str, lines: int = 100) -> {"text": str}
//	    Reads a file.
//	    path: The path, below the root.
func Stub(definition wire.Raw) string {
	tool := wire.ValueOf(definition)
	input := tool.Get("inputSchema")
	t := typer{root: input}
	var b strings.Builder
	b.WriteString(tool.Get("name").Str())
	b.WriteByte('(')
	required := input.Required()
	var notes []string
	n := 0
passes:
	for _, pass := range []bool{true, false} { // those that are required first
		for p := range input.Get("properties").Members() {
			name := p.Key.Str()
			if required[name] != pass {
				continue
			}
			if n++; n > 1 {
				b.WriteString(", ")
			}
			if n > maxParameters {
				b.WriteString("…")
				break passes
			}
			b.WriteString(clip(name, 100) + ": " + clip(t.typeOf(p.Value, 0), maxType))
			if !pass {
				if def := p.Value.Get("default"); def.Exists() {
					b.WriteString(" = " + clip(literal(def), 60))
				} else {
					b.WriteString(" = None")
				}
			}
			if d := p.Value.Get("description").Str(); d != "" {
				notes = append(notes, clip(name, 100)+": "+oneLine(d, 200))
			}
		}
	}
	b.WriteByte(')')
	if output := tool.Get("outputSchema"); output.Exists() {
		t.root = output
		b.WriteString(" -> " + clip(t.typeOf(output, 0), maxType))
	}
	if d := tool.Get("description").Str(); d != "" {
		b.WriteString("\n    " + strings.ReplaceAll(clip(strings.TrimSpace(d), maxDescription), "\n", "\n    "))
	}
	for _, note := range notes {
		b.WriteString("\n    " + note)
	}
	return b.String()
}

func oneLine(s string, max int) string { return clip(strings.Join(strings.Fields(s), " "), max) }

// literal returns a JSON value as a script writes it.
func literal(v wire.Value) string {
	switch v.Kind() {
	case 't':
		return "True"
	case 'f':
		return "False"
	case 'n':
		return "None"
	}
	return oneLine(string(v.Raw()), maxType)
}

// typer names the types of JSON Schemas.
type typer struct {
	root wire.Value // for references
	refs int        // references that were followed
}

// typeNames has the types of Starlark for those of JSON Schema.
var typeNames = map[string]string{"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list", "object": "dict"}

func (t *typer) typeOf(schema wire.Value, depth int) string {
	if depth > maxTypeDepth {
		return "any"
	}
	if target, ok := schema.Ref(t.root); ok {
		if t.refs++; t.refs > maxRefs || !target.Exists() {
			return "any"
		}
		return t.typeOf(target, depth+1)
	}
	if c := schema.Get("const"); c.Exists() {
		return literal(c)
	}
	if choices := schema.Get("enum"); choices.Kind() == '[' {
		return alternatives(choices, literal)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if any := schema.Get(word); any.Kind() == '[' {
			return alternatives(any, func(v wire.Value) string { return t.typeOf(v, depth+1) })
		}
	}
	kind := schema.Get("type")
	if kind.Kind() == '[' {
		return alternatives(kind, func(v wire.Value) string { return typeName(v.Str()) })
	}
	switch kind.Str() {
	case "array":
		if items := schema.Get("items"); items.Kind() == '{' {
			return "list[" + t.typeOf(items, depth+1) + "]"
		}
	case "object", "":
		if schema.Get("properties").Kind() == '{' {
			return t.object(schema, depth)
		}
		if values := schema.Get("additionalProperties"); values.Kind() == '{' && kind.Exists() {
			return "dict[str, " + t.typeOf(values, depth+1) + "]"
		}
	}
	return typeName(kind.Str())
}

func typeName(s string) string {
	if name := typeNames[s]; name != "" {
		return name
	}
	return "any"
}

// object returns {"name": type, "other"?: type}; the question mark is for a member that may
// be absent.
func (t *typer) object(schema wire.Value, depth int) string {
	required := schema.Required()
	var b strings.Builder
	b.WriteByte('{')
	i := 0
	for p := range schema.Get("properties").Members() {
		if b.Len() > maxType {
			break
		}
		if i++; i > 1 {
			b.WriteString(", ")
		}
		name, mark := p.Key.Str(), "?"
		if required[name] {
			mark = ""
		}
		fmt.Fprintf(&b, "%q%s: %s", clip(name, 100), mark, t.typeOf(p.Value, depth+1))
	}
	b.WriteByte('}')
	return clip(b.String(), maxType)
}

func alternatives(list wire.Value, name func(wire.Value) string) string {
	var parts []string
	for e := range list.Elements() {
		if len(parts) == maxChoices {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, clip(name(e), maxType))
	}
	return strings.Join(parts, " | ")
}
