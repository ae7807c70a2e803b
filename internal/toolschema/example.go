package toolschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcpgateway/internal/wire"
)

// Bounds on the search for examples.
const (
	maxExampleSteps = 1000 // schemas
	maxExampleDepth = 16
	maxExampleTries = 16 // complete arguments that are validated
)

// ExampleArguments returns arguments that the inputSchema of a tool itself gives: {} if
// no property is required, and otherwise for each required property its default, its
// const, the first value of its enum or its first example. It never invents values, and
// the arguments always match the compiled schema; without one, only {} is known to match.
// If there are none, the error is the reason, and needs names the properties without a
// value.
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
		for _, whole := range givenValues(input) {
			if wire.ValueOf(whole).Kind() == '{' && compiled.Validate(whole) == nil {
				return whole, nil, nil
			}
		}
	}
	values := make([][]wire.Raw, len(required)) // the values left to try
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
	return nil, namesOf(err, required), fmt.Errorf("the values that its inputSchema gives do not match it: %w", err)
}

// next moves to the next value of the first property that does not match, and reports
// whether there is one.
func next(mismatch *ValidationError, required []string, values [][]wire.Raw) bool {
	for i, name := range required {
		if len(values[i]) > 1 && mismatch.concerns(name) {
			values[i] = values[i][1:]
			return true
		}
	}
	return false
}

// concerns reports whether a violation is in the property.
func (m *ValidationError) concerns(name string) bool {
	at := jsonPath([]string{name})
	return slices.ContainsFunc(m.Violations, func(p Violation) bool {
		rest, ok := strings.CutPrefix(p.Path, at)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// namesOf returns the required properties with violations.
func namesOf(err error, required []string) (names []string) {
	mismatch, ok := errors.AsType[*ValidationError](err)
	for _, name := range required {
		if ok && mismatch.concerns(name) {
			names = append(names, name)
		}
	}
	return names
}

// requiredOf returns the names of required properties, without duplicates.
func requiredOf(schema wire.Value) (names []string) {
	for el := range schema.Get("required").Elements() {
		if name, ok := el.Text(); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// givenValues returns the values that a schema gives, the most likely first.
func givenValues(schema wire.Value) (values []wire.Raw) {
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

// examples searches the schemas of one document for values.
type examples struct {
	root wire.Value
	left int // remaining steps
}

// of returns values that may match a schema: those that it gives, those of its
// alternatives and of the schemas that it refers to in the same document, and an object
// of the values of its required properties.
func (x *examples) of(schema wire.Value, depth int) []wire.Raw {
	if x.left--; x.left < 0 || depth > maxExampleDepth || schema.Kind() != '{' {
		return nil
	}
	values := givenValues(schema)
	if target, ok := schema.Ref(x.root); ok {
		values = append(values, x.of(target, depth+1)...)
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

// object returns an object of the first values of required properties, nil if a value is
// missing or no property is required.
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
