package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// fileGlobals are the globals of a file that have a meaning.
var fileGlobals = []string{"name", "title", "description", "input_schema", "output_schema", "annotations", "tests", runFunction}

// annotationHints are the hints in the annotations of a tool (2025-11-25, schema, ToolAnnotations).
var annotationHints = []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}

// doubts returns what in the file has no effect or fails when the tool is called, in the order of the file.
func (c *Composite) doubts(source string, globals starlark.StringDict) []*Failure {
	var out []*Failure
	add := func(line int, format string, args ...any) {
		out = append(out, &Failure{Line: max(line, 1), Column: 1, Message: fmt.Sprintf(format, args...)})
	}
	var absent []string
	for _, name := range fileGlobals {
		if globals[name] == nil {
			absent = append(absent, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(globals)) {
		if slices.Contains(fileGlobals, name) {
			continue
		}
		if near := plaintext.Nearest(name, absent); near != "" {
			add(lineOfGlobal(source, name), "%s has no effect: did you mean %s?", name, near)
		}
	}
	definition := wire.ValueOf(c.Definition)
	for m := range definition.Get("annotations").Members() {
		switch name, kind := m.Key.Str(), m.Value.Kind(); {
		case name == "title":
		case !slices.Contains(annotationHints, name):
			add(lineOfGlobal(source, "annotations"), "annotations has %q, which no client knows; there are title, %s", clip(name, 60), strings.Join(annotationHints, ", "))
		case kind != 't' && kind != 'f':
			add(lineOfGlobal(source, "annotations"), "annotations: %s must be True or False", name)
		}
	}
	run, schema := globals[runFunction].(*starlark.Function), definition.Get("inputSchema")
	at := int(run.Position().Line)
	takes := map[string]bool{}
	named := run.NumParams()
	if run.HasKwargs() {
		named--
	}
	if run.HasVarargs() {
		named--
	}
	required := schema.Required()
	for i := range named {
		name, _ := run.Param(i)
		takes[name] = true
		switch {
		case run.ParamDefault(i) != nil || required[name]:
		case schema.Get("properties", name).Exists():
			add(at, "run fails if %s is absent, which input_schema allows: give the parameter a default, or add it to required", name)
		default:
			add(at, "run has the parameter %s, which input_schema does not require", name)
		}
	}
	for m := range schema.Get("properties").Members() {
		if name := m.Key.Str(); !takes[name] && !run.HasKwargs() {
			add(at, "run fails if %q is given, which input_schema has: add the parameter, or write run(…, **others)", clip(name, 60))
		}
	}
	slices.SortStableFunc(out, func(a, b *Failure) int { return a.Line - b.Line })
	return out
}

// lineOfGlobal returns the line on which a global is assigned, 0 if it is not found.
func lineOfGlobal(source, name string) int {
	n := 0
	for line := range strings.Lines(source) {
		n++
		if rest, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(strings.TrimLeft(rest, " \t"), "=") {
			return n
		}
	}
	return 0
}
