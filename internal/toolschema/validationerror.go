package toolschema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
)

// Bounds on the description of a value that does not match its schema.
const (
	maxViolations = 8
	maxMessage    = 300
	maxExpected   = 12 // values of an enumeration
)

// ValidationError describes why a value does not match its schema.
type ValidationError struct {
	Violations []Violation // at least one, sorted by path
	More       int         // the number of violations that were left out
}

// Violation describes one part of the value that does not match.
type Violation struct {
	Path    string // a JSONPath; $ is the value itself
	Message string // the expectation, such as "must be at least 0"
}

// Error lists the violations.
func (m *ValidationError) Error() string {
	parts := make([]string, len(m.Violations))
	for i, p := range m.Violations {
		parts[i] = p.Path + ": " + p.Message
	}
	if m.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", m.More))
	}
	return strings.Join(parts, "; ")
}

// newValidationError translates the error of the library.
func newValidationError(verr *jsonschema.ValidationError) *ValidationError {
	m := &ValidationError{}
	m.add(verr, 0)
	slices.SortStableFunc(m.Violations, func(a, b Violation) int { return cmp.Compare(a.Path, b.Path) })
	return m
}

// hasRefCycle reports whether the library gave up on a schema that refers to itself for the
// same value.
func hasRefCycle(e *jsonschema.ValidationError, level int) bool {
	if _, ok := e.ErrorKind.(*kind.RefCycle); ok {
		return true
	}
	return level < maxInstanceDepth && slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return hasRefCycle(c, level+1) })
}

// add adds the innermost causes of an error of the library.
func (m *ValidationError) add(e *jsonschema.ValidationError, level int) {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		m.addAlternatives(e, "one of the alternatives", level)
		return
	case *kind.OneOf:
		if k.Subschemas == nil {
			m.addAlternatives(e, "exactly one of the alternatives", level)
			return
		}
	}
	if len(e.Causes) > 0 && level < maxInstanceDepth {
		for _, c := range e.Causes {
			m.add(c, level+1)
		}
		return
	}
	m.addAt(e, expectation(e.ErrorKind))
}

// addAlternatives describes what alternatives expect. If all of them expect something of the value
// itself, one message lists that. Otherwise the violations of the closest alternative
// are added.
func (m *ValidationError) addAlternatives(e *jsonschema.ValidationError, all string, level int) {
	var wants []string
	var best *ValidationError
	for _, c := range e.Causes {
		one := &ValidationError{}
		one.add(c, level+1)
		if len(one.Violations) == 1 && one.More == 0 && one.Violations[0].Path == jsonPath(e.InstanceLocation) {
			wants = append(wants, one.Violations[0].Message)
		}
		if best == nil || one.deeper(best) {
			best = one
		}
	}
	switch {
	case len(wants) == len(e.Causes) && len(wants) > 0 && len(wants) <= 4:
		m.addAt(e, "must match "+all+": "+strings.Join(wants, ", or "))
	case best != nil && best.Violations[0].Path != jsonPath(e.InstanceLocation):
		for _, p := range best.Violations {
			m.append(p)
		}
		m.More += best.More
	default:
		m.addAt(e, "must match "+all)
	}
}

// deeper reports whether the first violation of m is deeper in the value than that of n.
func (m *ValidationError) deeper(n *ValidationError) bool {
	if len(m.Violations) == 0 || len(n.Violations) == 0 {
		return len(m.Violations) > 0
	}
	return strings.Count(m.Violations[0].Path, ".") > strings.Count(n.Violations[0].Path, ".")
}

func (m *ValidationError) addAt(e *jsonschema.ValidationError, want string) {
	m.append(Violation{jsonPath(e.InstanceLocation), plaintext.Clip(want, maxMessage)})
}

func (m *ValidationError) append(p Violation) {
	for _, q := range m.Violations {
		if p == q {
			return
		}
	}
	if len(m.Violations) == maxViolations {
		m.More++
		return
	}
	m.Violations = append(m.Violations, p)
}

// expectation describes the expectation. It does not repeat the value, which may be long and
// which the reader has.
func expectation(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be of type %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Required:
		return "lacks " + quoted(k.Missing)
	case *kind.AdditionalProperties:
		return "must not have " + quoted(k.Properties)
	case *kind.Enum:
		return "must be one of " + values(k.Want)
	case *kind.Const:
		return "must be " + values([]any{k.Want})
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.FalseSchema:
		return "must be absent"
	case *kind.Not:
		return "must not match the schema of not"
	case *kind.DependentRequired:
		return fmt.Sprintf("lacks %s, which %q demands", quoted(k.Missing), k.Prop)
	case *kind.Dependency:
		return fmt.Sprintf("lacks %s, which %q demands", quoted(k.Missing), k.Prop)
	case *kind.OneOf:
		return "must match exactly one of the alternatives, but matches several"
	case *kind.Format:
		return "must have the format " + k.Want
	default:
		return sizeExpectation(k)
	}
}

// sizeExpectation describes the expected length, count or number.
func sizeExpectation(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d elements, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d elements, not %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members, not %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members, not %d", k.Want, k.Got)
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not have equal elements: %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return fmt.Sprintf("must not have the last %d elements", k.Count)
	case *kind.PropertyNames:
		return fmt.Sprintf("must not have a member with the name %q", plaintext.Clip(k.Property, 64))
	case *kind.Contains:
		return "lacks an element that matches the schema of contains"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d elements that match the schema of contains", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d elements that match the schema of contains", k.Want)
	default:
		return "must match " + strings.Join(k.KeywordPath(), ".")
	}
}

// decimal formats a number that may have many digits.
func decimal(n *big.Rat) string {
	if n.IsInt() {
		return plaintext.Clip(n.Num().String(), 64)
	}
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func quoted(names []string) string {
	var out []string
	for i, n := range names {
		if i == maxExpected {
			out = append(out, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		out = append(out, fmt.Sprintf("%q", plaintext.Clip(n, 64)))
	}
	return strings.Join(out, ", ")
}

func values(list []any) string {
	var out []string
	for i, v := range list {
		if i == maxExpected {
			out = append(out, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		switch v := v.(type) {
		case string:
			out = append(out, fmt.Sprintf("%q", plaintext.Clip(v, 64)))
		case map[string]any:
			out = append(out, "an object")
		case []any:
			out = append(out, "an array")
		case nil:
			out = append(out, "null")
		default:
			out = append(out, plaintext.Clip(fmt.Sprint(v), 64))
		}
	}
	return strings.Join(out, ", ")
}

// jsonPath formats a path as JSONPath (RFC 9535).
func jsonPath(location []string) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range location {
		content.AppendPath(&b, s)
	}
	return plaintext.Clip(b.String(), maxMessage)
}

// compileError describes why a schema does not compile, without the URL that the schema
// has within the library.
func compileError(err error) error {
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if verr, ok := errors.AsType[*jsonschema.ValidationError](bad.Err); ok {
			return newValidationError(verr)
		}
	}
	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return errors.New("it refers to another document, and no reference is followed")
	}
	return errors.New(plaintext.Clip(strings.ReplaceAll(err.Error(), schemaURL, ""), maxMessage))
}
