package conform

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
)

// Bounds on what is said about a value that does not fit its schema.
const (
	maxMisfits     = 8
	maxMisfitBytes = 300
	maxExpected    = 12 // values of an enumeration
)

// Misfit says where a value does not fit its schema, and what was expected.
type Misfit struct {
	Places []Place // at least one, by path
	More   int     // how many places were left out
}

// Place is one place that does not fit.
type Place struct {
	Path string // JSONPath, $ for the value itself
	Want string // what was expected
}

// Error lists the places.
func (m *Misfit) Error() string {
	parts := make([]string, len(m.Places))
	for i, p := range m.Places {
		parts[i] = p.Path + ": " + p.Want
	}
	if m.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", m.More))
	}
	return strings.Join(parts, "; ")
}

// misfitOf makes one of what the library found.
func misfitOf(verr *jsonschema.ValidationError) *Misfit {
	m := &Misfit{}
	m.add(verr, 0)
	slices.SortStableFunc(m.Places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) })
	return m
}

// circles reports whether the library gave up on a schema that refers to itself
// without getting any further into the value.
func circles(e *jsonschema.ValidationError, level int) bool {
	if _, ok := e.ErrorKind.(*kind.RefCycle); ok {
		return true
	}
	return level < maxInstanceDepth && slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return circles(c, level+1) })
}

// add descends to the faults that name a place, and words them.
func (m *Misfit) add(e *jsonschema.ValidationError, level int) {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		m.either(e, "one of the alternatives", level)
		return
	case *kind.OneOf:
		if k.Subschemas == nil {
			m.either(e, "exactly one of the alternatives", level)
			return
		}
	}
	if len(e.Causes) > 0 && level < maxInstanceDepth {
		for _, c := range e.Causes {
			m.add(c, level+1)
		}
		return
	}
	m.place(e, want(e.ErrorKind))
}

// either says what the alternatives expect. Where they all expect something of
// the value itself, that is said in one line; else the alternative that fits
// best is taken for the one that was meant.
func (m *Misfit) either(e *jsonschema.ValidationError, all string, level int) {
	var wants []string
	var best *Misfit
	for _, c := range e.Causes {
		one := &Misfit{}
		one.add(c, level+1)
		if len(one.Places) == 1 && one.More == 0 && one.Places[0].Path == jsonPath(e.InstanceLocation) {
			wants = append(wants, one.Places[0].Want)
		}
		if best == nil || one.deeper(best) {
			best = one
		}
	}
	switch {
	case len(wants) == len(e.Causes) && len(wants) > 0 && len(wants) <= 4:
		m.place(e, "must fit "+all+": "+strings.Join(wants, ", or "))
	case best != nil && best.Places[0].Path != jsonPath(e.InstanceLocation):
		for _, p := range best.Places {
			m.append(p)
		}
		m.More += best.More
	default:
		m.place(e, "must fit "+all)
	}
}

// deeper reports whether m gets further into the value than n before it fails.
func (m *Misfit) deeper(n *Misfit) bool {
	if len(m.Places) == 0 || len(n.Places) == 0 {
		return len(m.Places) > 0
	}
	return strings.Count(m.Places[0].Path, ".") > strings.Count(n.Places[0].Path, ".")
}

func (m *Misfit) place(e *jsonschema.ValidationError, want string) {
	m.append(Place{jsonPath(e.InstanceLocation), clip(want, maxMisfitBytes)})
}

func (m *Misfit) append(p Place) {
	for _, q := range m.Places {
		if p == q {
			return
		}
	}
	if len(m.Places) == maxMisfits {
		m.More++
		return
	}
	m.Places = append(m.Places, p)
}

// want says what was expected. The value itself is not repeated: it may be
// long, and whoever reads this has it.
func want(k jsonschema.ErrorKind) string {
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
		return "must not be there"
	case *kind.Not:
		return "must not fit the schema under not"
	case *kind.DependentRequired:
		return fmt.Sprintf("lacks %s, which %q demands", quoted(k.Missing), k.Prop)
	case *kind.Dependency:
		return fmt.Sprintf("lacks %s, which %q demands", quoted(k.Missing), k.Prop)
	case *kind.OneOf:
		return "must fit exactly one of the alternatives, and fits more"
	case *kind.Format:
		return "must have the format " + k.Want
	default:
		return wantSize(k)
	}
}

// wantSize says what was expected of a length, a count or a number.
func wantSize(k jsonschema.ErrorKind) string {
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
		return fmt.Sprintf("must not have equal elements, as are %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return fmt.Sprintf("must not have the last %d elements", k.Count)
	case *kind.PropertyNames:
		return fmt.Sprintf("must not have a member of the name %q", clip(k.Property, 64))
	case *kind.Contains:
		return "lacks an element that fits the schema under contains"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d elements that fit the schema under contains", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d elements that fit the schema under contains", k.Want)
	default:
		return "must fit " + strings.Join(k.KeywordPath(), ".")
	}
}

// decimal words a number that may be one with many digits.
func decimal(n *big.Rat) string {
	if n.IsInt() {
		return clip(n.Num().String(), 64)
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
		out = append(out, fmt.Sprintf("%q", clip(n, 64)))
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
			out = append(out, fmt.Sprintf("%q", clip(v, 64)))
		case map[string]any:
			out = append(out, "an object")
		case []any:
			out = append(out, "an array")
		case nil:
			out = append(out, "null")
		default:
			out = append(out, clip(fmt.Sprint(v), 64))
		}
	}
	return strings.Join(out, ", ")
}

// jsonPath words a path in the way of RFC 9535.
func jsonPath(location []string) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range location {
		appendStep(&b, s)
	}
	return clip(b.String(), maxMisfitBytes)
}

func appendStep(b *strings.Builder, s string) {
	switch {
	case len(s) <= 9 && isIndex(s):
		b.WriteByte('[')
		b.WriteString(s)
		b.WriteByte(']')
	case len(s) <= 64 && isPlainName(s):
		b.WriteByte('.')
		b.WriteString(s)
	default:
		fmt.Fprintf(b, "[%q]", clip(s, 64))
	}
}

func isIndex(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isPlainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != ""
}

// clip bounds a text that a peer wrote.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// plainFault words why a schema does not compile, without the library's names of
// places that nobody has seen.
func plainFault(err error) error {
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if verr, ok := errors.AsType[*jsonschema.ValidationError](bad.Err); ok {
			return misfitOf(verr)
		}
	}
	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return errors.New("it refers to another document, and no reference is followed")
	}
	return errors.New(clip(strings.ReplaceAll(err.Error(), schemaURL, ""), maxMisfitBytes))
}
