package conform

import (
	"strings"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// jsonTypes are the types of JSON Schema.
var jsonTypes = map[string]bool{
	"string": true, "number": true, "integer": true, "boolean": true, "object": true, "array": true, "null": true,
}

// schemaRules returns the rules for members of a tool's schema that clients read.
func schemaRules(section string) []rule {
	return []rule{
		{name: "properties", section: section, check: checkProperties},
		{name: "required", section: section, check: checkRequired},
	}
}

var inputRules, outputRules = schemaRules(secTool), schemaRules(secOutput)

// checkInputSchema checks the inputSchema of a tool: an object whose type is
// "object".
func checkInputSchema(w *walk, v wire.Value) wire.Raw {
	doc := v.Raw()
	switch v.Kind() {
	case '{':
	case 't':
		w.report(WrongType, secTool, true, "must be an object, not true")
		return wire.Raw(`{"type":"object"}`)
	case '"':
		text := strings.TrimSpace(v.Str())
		ok := wire.Check([]byte(text), wire.Limits{}, wire.Lenient) == nil && strings.HasPrefix(text, "{")
		w.report(WrongType, secTool, ok, "must be an object, not a string")
		if !ok {
			w.unrepaired++
			return nil
		}
		doc = wire.Raw(text)
	default:
		w.report(WrongType, secTool, false, "must be an object, not "+v.KindName())
		w.unrepaired++
		return nil
	}
	return w.checkSchema(v, doc, inputRules, secTool, true)
}

// checkOutputSchema checks the outputSchema of a tool. Before 2026-07-28 its type must be
// "object"; package downlevel removes others for older clients.
func checkOutputSchema(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		w.report(WrongType, secOutput, true, "must be an object, not "+v.KindName())
		return removed
	}
	return w.checkSchema(v, v.Raw(), outputRules, secOutput, false)
}

// checkSchema checks the type of a schema and its members. doc is the schema itself, v may
// be a string that contains it.
func (w *walk) checkSchema(v wire.Value, doc wire.Raw, rules []rule, section string, input bool) wire.Raw {
	schema := wire.ValueOf(doc)
	if fix := w.checkObject(schema, rules); fix != nil {
		doc = fix
		schema = wire.ValueOf(doc)
	}
	old := w.rev != "" && !w.rev.AtLeast(wire.Rev20260728)
	if kind := schema.Get("type"); !kind.IsString("object") && (input || old) {
		means := meansObject(schema, kind, input)
		words := "is missing; it must be \"object\""
		if kind.Exists() {
			words = "must be \"object\", not " + plaintext.Clip(string(kind.Raw()), 64)
		}
		// Package downlevel removes an invalid outputSchema for older clients.
		w.reportMember("type", InvalidValue, section, means || !input, words)
		switch {
		case means && w.repair:
			doc = wire.SetMember(doc, "type", wire.Raw(`"object"`))
		case !means && input:
			w.unrepaired++
		}
	}
	if &doc[0] == &v.Raw()[0] && len(doc) == len(v.Raw()) {
		return nil
	}
	return doc
}

// meansObject reports whether a schema whose type is not "object" can only be meant for
// objects.
func meansObject(schema, kind wire.Value, input bool) bool {
	switch kind.Kind() {
	case 0, 'n':
		// Arguments are always objects, results need not be.
		return input || schema.Get("properties").Kind() == '{'
	case '"':
		return strings.EqualFold(strings.TrimSpace(kind.Str()), "object")
	case '[':
		for el := range kind.Elements() {
			if el.IsString("object") {
				return input
			}
		}
	}
	return false
}

// checkProperties checks the properties of a tool's schema.
func checkProperties(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '{' {
		empty := v.Kind() == '['
		for range v.Elements() {
			empty = false
		}
		w.report(WrongType, secTool, true, "must be an object of schemas by name, not "+v.KindName())
		if empty { // an empty object in PHP
			return wire.Raw(`{}`)
		}
		return removed
	}
	e := wire.NewEdit(v.Raw())
	for m := range wire.ValueOf(v.Raw()).Members() {
		switch m.Value.Kind() {
		case '{', 't', 'f': // newer revisions allow booleans, and package downlevel replaces them
			continue
		}
		with := wire.Raw(`{}`)
		if name := strings.ToLower(m.Value.Str()); jsonTypes[name] {
			with = wire.SetMember(with, "type", wire.String(name))
		}
		w.reportMember(m.Key.Str(), WrongType, secTool, true, "must be a schema, not "+m.Value.KindName())
		e.Replace(m.Value, with)
	}
	if !e.Changed() {
		return nil
	}
	return e.Bytes()
}

// checkRequired checks the names of required properties.
func checkRequired(w *walk, v wire.Value) wire.Raw {
	if v.Kind() != '[' {
		w.report(WrongType, secTool, true, "must be an array of names, not "+v.KindName())
		if v.Kind() == '"' && !v.IsString("") {
			return append(append(wire.Raw{'['}, v.Raw()...), ']')
		}
		return removed
	}
	return w.checkArray(v, func(w *walk, el wire.Value) wire.Raw {
		if el.Kind() == '"' {
			return nil
		}
		w.report(WrongType, secTool, true, "must be a name, not "+el.KindName())
		return removed
	})
}
