package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SchemaID identifies the JSON Schema of gateway.yaml.
const SchemaID = "urn:mcpgateway:gateway.yaml"

// JSONSchema returns the JSON Schema (draft-07, which editors support best) of gateway.yaml, made from the tags of the
// schema. Every valid gateway.yaml is valid by it. It finds unknown keys, wrong types and values out of enumerations;
// other errors are found by [Load] alone.
func JSONSchema() []byte {
	s := &schemaWriter{definitions: make(map[string]any)}
	top := s.mapping(reflect.TypeFor[document]())
	// A host's own file may have keys of the host at the top.
	delete(top, "additionalProperties")
	names := slices.Sorted(maps.Keys(top["properties"].(object)))
	top["if"] = object{"anyOf": []object{{"required": []string{"mcpServers"}}, {"required": []string{"servers"}}}}
	top["else"] = object{"propertyNames": object{"enum": names}}
	top["$schema"], top["$id"], top["definitions"] = "http://json-schema.org/draft-07/schema#", SchemaID, s.definitions
	top["title"] = "Configuration of the MCP gateway (gateway.yaml)"
	out, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		panic(err) // the schema is part of the program
	}
	return append(out, '\n')
}

type object = map[string]any

// reference is the form of a value that refers to variables; its type is known after the expansion.
var reference = object{"type": "string", "pattern": `\$\{`}

// schemaWriter translates the structs of the schema. A struct without keys of a user is a definition.
type schemaWriter struct{ definitions object }

// mapping is the schema of a struct.
func (s *schemaWriter) mapping(t reflect.Type) object {
	properties := object{}
	for _, f := range shapeOf(t).fields {
		properties[f.name] = s.field(f)
		for _, alias := range f.aliases {
			properties[alias] = s.field(f)
		}
	}
	if t == reflect.TypeFor[entry]() {
		for key, hint := range hostKeys {
			if name, ok := strings.CutPrefix(key, "upstreams.*."); ok && properties[name] == nil {
				properties[name] = object{"description": strings.TrimSuffix("Hosts write this key. It has no effect here; "+hint, "; ")}
			}
		}
	}
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

// definition refers to the schema of a struct.
func (s *schemaWriter) definition(t reflect.Type) object {
	name := t.Name()
	if s.definitions[name] == nil {
		s.definitions[name] = object{} // for a struct that contains itself
		s.definitions[name] = s.mapping(t)
	}
	return object{"$ref": "#/definitions/" + name}
}

// field is the schema of the value of a key.
func (s *schemaWriter) field(f *field) object {
	out := s.value(f, f.typ)
	if f.doc != "" {
		out["description"] = upperFirst(f.doc) + "."
	}
	if f.hasDef {
		out["default"] = f.defaultValue()
	}
	return out
}

func (s *schemaWriter) value(f *field, t reflect.Type) object {
	switch {
	case f.keyed:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.definition(t.Elem())}
	case t.Kind() == reflect.Pointer:
		return s.value(f, t.Elem())
	case f.isStruct() && t.Kind() == reflect.Struct:
		alternatives := []object{s.definition(t)}
		for _, inside := range shapeOf(t).fields {
			if inside.listed {
				alternatives = append(alternatives, s.value(inside, inside.typ))
			}
		}
		return object{"anyOf": alternatives}
	case t.Kind() == reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": object{"type": "string"}}
	case t.Kind() == reflect.Slice:
		return s.list(f, t.Elem())
	}
	return s.scalar(f, t)
}

// list is the schema of a list. A scalar may stand for a list of one, or for an element that is a mapping.
func (s *schemaWriter) list(f *field, elem reflect.Type) object {
	var item object
	if elem.Kind() == reflect.Struct && elem != reflect.TypeFor[Secret]() {
		item = s.definition(elem)
		for _, inside := range shapeOf(elem).fields {
			if inside.short {
				item = object{"anyOf": []object{s.scalar(inside, inside.typ), item}}
			}
		}
	} else {
		item = s.scalar(f, elem)
	}
	list := object{"type": []string{"array", "null"}, "items": item}
	if f.single {
		return object{"anyOf": []object{item, list}}
	}
	return list
}

const (
	durationForm = `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$|^0$|\$\{`
	sizeForm     = `^[0-9]|\$\{`
)

func (s *schemaWriter) scalar(f *field, t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Secret]():
		return object{"type": "string"}
	case t == reflect.TypeFor[time.Duration]():
		return object{"anyOf": []object{{"type": "string", "pattern": durationForm}, {"const": 0}}}
	case t == reflect.TypeFor[Size]():
		return object{"anyOf": []object{{"type": "string", "pattern": sizeForm}, {"type": "integer", "minimum": 0}}}
	case t.Kind() == reflect.Bool:
		return object{"anyOf": []object{{"type": "boolean"}, reference}}
	case t.Kind() == reflect.Int:
		number := object{"type": "integer"}
		for word, text := range map[string]string{"minimum": f.min, "maximum": f.max} {
			if n, err := strconv.Atoi(text); err == nil {
				number[word] = n
			}
		}
		return object{"anyOf": []object{number, reference}}
	case t.Kind() == reflect.Float64:
		least, _ := strconv.ParseFloat(f.min, 64)
		most, _ := strconv.ParseFloat(f.max, 64)
		return object{"anyOf": []object{{"type": "number", "minimum": least, "maximum": most}, reference}}
	case len(f.enum) > 0:
		values := f.enum
		if f.blank && !slices.Contains(values, "") {
			values = append(slices.Clone(values), "")
		}
		if f.hasBooleans() {
			values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "true" || s == "false" })
			return object{"anyOf": []object{{"type": "boolean"}, {"enum": values}, reference}}
		}
		return object{"anyOf": []object{{"enum": values}, reference}}
	}
	return object{"type": "string"}
}

// defaultValue is the default in its JSON type.
func (f *field) defaultValue() any {
	if f.hasBooleans() {
		return f.def == "true"
	}
	switch f.typ.Kind() {
	case reflect.Bool:
		return f.def == "true"
	case reflect.Int:
		n, _ := strconv.Atoi(f.def)
		return n
	case reflect.Float64:
		n, _ := strconv.ParseFloat(f.def, 64)
		return n
	case reflect.Slice:
		return []string{f.def}
	}
	return f.def
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
