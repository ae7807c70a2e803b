package wire

import "strings"

// Ref returns the schema that the $ref of the JSON Schema v names in its own document, whose
// root is root: an absent value if the document has no such schema. ok reports whether v has a
// $ref. A schema may refer to itself, so callers bound how many references they follow.
func (v Value) Ref(root Value) (target Value, ok bool) {
	ref, ok := v.Get("$ref").Text()
	if ref == "#" || strings.HasPrefix(ref, "#/") {
		target = root.At(ref[1:])
	}
	return target, ok
}

// Required returns the names of the properties that the JSON Schema v requires.
func (v Value) Required() map[string]bool {
	names := make(map[string]bool)
	for name := range v.Get("required").Elements() {
		names[name.Str()] = true
	}
	return names
}
