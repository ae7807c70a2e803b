package toolschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpgateway/internal/wire"
)

// Bounds on the search for arguments.
const (
	maxExampleSteps = 1000 // schemas that are looked at
	maxExampleDepth = 16
	maxExampleTries = 16 // whole arguments that are held against the schema
)

// ExampleArguments returns arguments for a tool out of what its inputSchema itself gives:
// {} where it requires no property, else of each required one the default, the
// const, the first of the enum or the first of the examples. They are never
// guessed, and always fit the compiled schema; where that is nil, nothing but {}
// can be known to fit. Where there are none the error says why, and needs names
// the properties that nothing is known of.
func ExampleArguments(input wire.Value, compiled *Schema) (arguments wire.Raw, needs []string, err error) {
	x := examples{root: input, left: maxExampleSteps}
	required := requiredOf(input)
	if compiled == nil {
		if len(required) == 0 {
			return wire.Raw(`{}`), nil, nil
		}
		return nil, required, errors.New("its inputSchema cannot be checked")
	}
	if len(required) > 0 {
		for _, whole := range given(input) {
			if wire.ValueOf(whole).Kind() == '{' && compiled.Validate(whole) == nil {
				return whole, nil, nil
			}
		}
	}
	values := make([][]wire.Raw, len(required)) // those left to try
	for i, name := range required {
		if values[i] = x.of(input.Get("properties").Get(name), 0); len(values[i]) == 0 {
			needs = append(needs, name)
		}
	}
	if len(needs) > 0 {
		return nil, needs, fmt.Errorf("its inputSchema gives no value for %s", strings.Join(needs, ", "))
	}
	for range maxExampleTries {
		arguments = wire.Raw(`{}`)
		for i, name := range required {
			arguments = wire.SetMember(arguments, name, values[i][0])
		}
		if err = compiled.Validate(arguments); err == nil {
			return arguments, nil, nil
		}
		mismatch, ok := errors.AsType[*ValidationError](err)
		if !ok || !next(mismatch, required, values) {
			break
		}
	}
	return nil, namesOf(err, required), fmt.Errorf("what its inputSchema gives does not fit it: %w", err)
}

// next takes the next value of the first property that does not fit and has
// another, and reports whether there is one.
func next(mismatch *ValidationError, required []string, values [][]wire.Raw) bool {
	for i, name := range required {
		if len(values[i]) > 1 && mismatch.isAt(name) {
			values[i] = values[i][1:]
			return true
		}
	}
	return false
}

// isAt reports whether a property, or something in it, does not fit.
func (m *ValidationError) isAt(name string) bool {
	at := jsonPath([]string{name})
	return slices.ContainsFunc(m.Violations, func(p Violation) bool {
		rest, ok := strings.CutPrefix(p.Path, at)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// namesOf returns the required properties that an error is about.
func namesOf(err error, required []string) (names []string) {
	mismatch, ok := errors.AsType[*ValidationError](err)
	for _, name := range required {
		if ok && mismatch.isAt(name) {
			names = append(names, name)
		}
	}
	return names
}

// requiredOf returns the names of required properties, each once.
func requiredOf(schema wire.Value) (names []string) {
	for el := range schema.Get("required").Elements() {
		if name, ok := el.Text(); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// given returns the values that a schema itself gives, the likeliest first.
func given(schema wire.Value) (values []wire.Raw) {
	for _, name := range []string{"default", "const"} {
		if v := schema.Get(name); v.Exists() {
			values = append(values, v.Raw())
		}
	}
	for _, name := range []string{"enum", "examples"} {
		for el := range schema.Get(name).Elements() {
			values = append(values, el.Raw())
			break
		}
	}
	return values
}

// examples looks for values in the schemas of one document.
type examples struct {
	root wire.Value
	left int // steps
}

// of returns values that may fit a schema: those that it gives, those of what it
// refers to in the same document and of its alternatives, and an object made of
// the values of its required properties.
func (x *examples) of(schema wire.Value, depth int) []wire.Raw {
	if x.left--; x.left < 0 || depth > maxExampleDepth || schema.Kind() != '{' {
		return nil
	}
	values := given(schema)
	if ref, ok := strings.CutPrefix(schema.Get("$ref").Str(), "#"); ok {
		values = append(values, x.of(x.at(ref), depth+1)...)
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		for el := range schema.Get(word).Elements() {
			values = append(values, x.of(el, depth+1)...)
		}
	}
	if object := x.object(schema, depth); object != nil {
		values = append(values, object)
	}
	return values
}

// object makes an object of the first values of required properties, nil where
// one has none, or none is required.
func (x *examples) object(schema wire.Value, depth int) wire.Raw {
	required := requiredOf(schema)
	if len(required) == 0 || !schema.Get("properties").Exists() {
		return nil
	}
	object := wire.Raw(`{}`)
	for _, name := range required {
		values := x.of(schema.Get("properties").Get(name), depth+1)
		if len(values) == 0 {
			return nil
		}
		object = wire.SetMember(object, name, values[0])
	}
	return object
}

// at returns what a JSON pointer of members leads to in the document.
func (x *examples) at(pointer string) wire.Value {
	v := x.root
	if pointer == "" {
		return v
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		v = v.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return v
}
