package pins

import (
	"slices"
	"strings"

	"mcpgateway/internal/wire"
)

// maxStarts is the number of consecutive starts at which a definition must differ from the previous
// one before it is reported as always different.
const maxStarts = 3

// history has data about the accepted definition of a tool in addition to its digest.
type history struct {
	// Members are short digests of the members of the accepted definition, by name, and of
	// its schemas without default values, by schemasKey.
	Members map[string]string `json:"members,omitempty"`
	// Starts are the digests at the last starts in a row at which the definition differed
	// from the start before, the last one last. It begins with an accepted digest.
	Starts []string `json:"starts,omitempty"`
	// Definition is the accepted definition as text, "" if it is not kept: it is too long, or an older
	// version has accepted it. It is JSON in a string, because a server may name a member twice.
	Definition string `json:"definition,omitempty"`
}

// schemasKey is the key of the schemas without default values among the members.
const schemasKey = "schemas without default"

// noteStart notes the definition of a tool at one start, and reports whether it has changed
// the history. accepted is the digest before.
func (h *history) noteStart(accepted, now string) bool {
	last := accepted
	if n := len(h.Starts); n > 0 {
		last = h.Starts[n-1]
	}
	switch {
	case now == last && len(h.Starts) <= 1:
		return false
	case now == last:
		h.Starts = []string{now}
	case len(h.Starts) == 0:
		h.Starts = []string{accepted, now}
	default:
		h.Starts = append(h.Starts, now)
		h.Starts = h.Starts[max(0, len(h.Starts)-maxStarts):]
	}
	return true
}

// alwaysDiffers reports whether the definition differed at every one of the last starts.
func (h *history) alwaysDiffers() bool { return len(h.Starts) >= maxStarts }

// difference says in which members a tool differs from its accepted definition, "" if that
// is not known.
func (h *history) difference(tool wire.Raw) (what string, onlyDefaults bool) {
	if h.Members == nil {
		return "", false
	}
	now := membersOf(tool)
	var differ []string
	for _, name := range pinnedMembers {
		if h.Members[name] != now[name] {
			differ = append(differ, name)
		}
	}
	onlyDefaults = len(differ) > 0 && h.Members[schemasKey] == now[schemasKey] &&
		!slices.ContainsFunc(differ, func(name string) bool { return !slices.Contains(schemas, name) })
	what = strings.Join(differ, ", ")
	if onlyDefaults {
		what = "default values in " + what
	}
	return what, onlyDefaults
}

// schemas are the pinned members that are JSON Schemas.
var schemas = []string{"inputSchema", "outputSchema"}

// membersOf returns the short digests of a tool's members.
func membersOf(tool wire.Raw) map[string]string {
	out := make(map[string]string)
	bare := wire.Raw{'['}
	for m := range wire.ValueOf(tool).Members() {
		name := m.Key.Str()
		if !slices.Contains(pinnedMembers, name) {
			continue
		}
		out[name] = shortDigest(m.Value.Raw())
		if slices.Contains(schemas, name) {
			if len(bare) > 1 {
				bare = append(bare, ',')
			}
			bare = append(append(append(append(bare, '"'), name...), `",`...), withoutDefaults(m.Value)...)
		}
	}
	out[schemasKey] = shortDigest(append(bare, ']'))
	return out
}

func shortDigest(raw wire.Raw) string {
	digest := strings.TrimPrefix(string(wire.AppendDigest(nil, raw)), "sha256:")
	return digest[:min(len(digest), 16)]
}

var (
	// namedSchemas are the keywords whose value is an object with a schema for each name.
	namedSchemas = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	// values are the keywords whose value is no schema and has none in it.
	values = []string{"const", "enum", "examples", "required", "type", "$ref"}
)

// withoutDefaults returns a schema without the default values of it and of the schemas
// within it.
func withoutDefaults(schema wire.Value) wire.Raw { return editSchema(schema, 0) }

// maxSchemaDepth bounds the recursion. Deeper schemas stay as they are.
const maxSchemaDepth = 200

func editSchema(v wire.Value, depth int) wire.Raw {
	if depth > maxSchemaDepth {
		return v.Raw()
	}
	switch v.Kind() {
	case '{':
		out := wire.Raw{'{'}
		for m := range v.Members() {
			name := m.Key.Str()
			if name == "default" {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, m.Key.Raw()...), ':')
			switch {
			case slices.Contains(values, name):
				out = append(out, m.Value.Raw()...)
			case slices.Contains(namedSchemas, name):
				out = append(out, editNamed(m.Value, depth+1)...)
			default:
				out = append(out, editSchema(m.Value, depth+1)...)
			}
		}
		return append(out, '}')
	case '[':
		out := wire.Raw{'['}
		for e := range v.Elements() {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, editSchema(e, depth+1)...)
		}
		return append(out, ']')
	}
	return v.Raw()
}

// editNamed returns an object of schemas without their default values. A name in it may be
// default.
func editNamed(v wire.Value, depth int) wire.Raw {
	if v.Kind() != '{' {
		return v.Raw()
	}
	out := wire.Raw{'{'}
	for m := range v.Members() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, m.Key.Raw()...), ':')
		out = append(out, editSchema(m.Value, depth+1)...)
	}
	return append(out, '}')
}
