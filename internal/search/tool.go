package search

import (
	"strings"

	"mcpgateway/internal/wire"
)

// Tool has the searchable texts of a tool.
type Tool struct {
	// Name is the name that the view shows.
	Name string
	// Upstream is the configured name of the server that has the tool.
	Upstream string
	// Tags are those of the tool and of its upstream.
	Tags []string

	Title, Description string
	Params             []Param
	Hints              Hints
}

// Param is a parameter of a tool, or a member of one.
type Param struct{ Name, Description string }

// Hints is a set of annotations of a tool: those that are true.
type Hints uint8

// The annotations by which tools can be filtered.
const (
	ReadOnly Hints = 1 << iota
	Destructive
	Idempotent
	OpenWorld
)

var hintNames = []struct {
	name string
	hint Hints
}{
	{"readOnlyHint", ReadOnly}, {"destructiveHint", Destructive}, {"idempotentHint", Idempotent}, {"openWorldHint", OpenWorld},
}

// HintNamed returns the hint of an annotation such as readOnlyHint. It returns false for
// another name.
func HintNamed(annotation string) (Hints, bool) {
	for _, h := range hintNames {
		if h.name == annotation {
			return h.hint, true
		}
	}
	return 0, false
}

// The bounds on what is read of a schema.
const (
	maxParams = 256
	maxDepth  = 4 // of parameters within parameters
)

// ToolOf reads a tool from its definition, which must be valid JSON. The caller adds what the
// definition does not say: upstream and tags. Annotations that are missing have the defaults of
// the specification. Parameters of parameters count as parameters.
func ToolOf(definition wire.Raw) Tool {
	v := wire.ValueOf(definition)
	annotations := v.Get("annotations")
	t := Tool{Name: v.Get("name").Str(), Title: v.Get("title").Str(), Description: v.Get("description").Str(), Hints: hintsOf(annotations)}
	if t.Title == "" {
		t.Title = annotations.Get("title").Str()
	}
	t.Params = appendParams(nil, v.Get("inputSchema"), 0)
	return t
}

// hintsOf returns the annotations that hold. A tool that only reads destroys nothing, and
// reading again changes nothing, whatever it says beside it.
func hintsOf(annotations wire.Value) Hints {
	hints := Destructive | OpenWorld
	for _, h := range hintNames {
		switch annotations.Get(h.name).Kind() {
		case 't':
			hints |= h.hint
		case 'f':
			hints &^= h.hint
		}
	}
	if hints&ReadOnly != 0 {
		hints = hints&^Destructive | Idempotent
	}
	return hints
}

// appendParams appends the properties of an object's schema, of the schemas in it, and of an
// array's items.
func appendParams(params []Param, schema wire.Value, depth int) []Param {
	if depth > maxDepth {
		return params
	}
	for m := range schema.Get("properties").Members() {
		if len(params) >= maxParams {
			break
		}
		params = append(params, Param{Name: m.Key.Str(), Description: m.Value.Get("description").Str()})
		params = appendParams(params, m.Value, depth+1)
	}
	if items := schema.Get("items"); items.Exists() {
		params = appendParams(params, items, depth+1)
	}
	return params
}

// Text describes a tool in words, as for an embedding.
func (t Tool) Text() string {
	var b strings.Builder
	b.WriteString(withoutUpstream(t.Name, t.Upstream))
	for _, part := range []string{t.Upstream, t.Title, t.Description} {
		if part != "" {
			b.WriteString("\n" + part)
		}
	}
	for i, p := range t.Params {
		if i == 0 {
			b.WriteString("\nParameters:")
		}
		b.WriteString(" " + p.Name)
	}
	return b.String()
}
