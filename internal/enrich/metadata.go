package enrich

import (
	"strconv"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// editor adds members to one document.
type editor struct{ content.LazyEdit }

// The kind of resource that a directory is, and what tells that it is one
// (SEP-2093, "Add resourceType to Resource").
const (
	collection    = "collection"
	directoryMIME = "inode/directory"
)

// described are the members of a resource that its contents carry too (SEP-2093,
// "Resource Contents Extend Resource"), in the order in which they are added, and
// the kind of value that each has. The size is not among them: it is that of the
// contents.
var described = [...]struct {
	name string
	kind byte
}{
	{"name", '"'}, {"title", '"'}, {"description", '"'}, {"icons", '['}, {"annotations", '{'}, {"resourceType", '"'},
}

// Contents returns the result of resources/read, under public names, with what
// each element of its contents lacks of the metadata of its resource. describe
// returns what is known of a resource by its public URI, an item of a list, or
// nil. Nothing that the upstream said is replaced, and an element that says what
// type its resource is of is left as it is: its server knows the draft, and has
// said what it has to say.
//
// The size is that of the text or of the decoded blob, which is not decoded for
// it.
func ReadResult(result wire.Raw, describe func(uri string) wire.Raw) wire.Raw {
	e := editor{content.LazyEdit{Doc: result}}
	for m := range wire.ValueOf(result).Members() {
		if m.Is("contents") {
			for el := range m.Value.Elements() {
				e.describe(el, describe)
			}
		}
	}
	return e.Bytes()
}

// describe adds to one element what it lacks.
func (e *editor) describe(el wire.Value, describe func(uri string) wire.Raw) {
	var has [len(described)]bool
	var uri, mime, body wire.Value
	var blob, sized, typed bool
	for m := range el.Members() {
		switch {
		case m.Is("uri"):
			uri = m.Value
		case m.Is("mimeType"):
			mime = m.Value
		case m.Value.Kind() == '"' && m.Is("text"):
			body = m.Value
		case m.Value.Kind() == '"' && m.Is("blob"):
			body, blob = m.Value, true
		case m.Is("size"):
			sized = true
		case m.Is("capabilities"):
			typed = true
		default:
			for i := range described {
				if m.Is(described[i].name) {
					has[i] = true
					break
				}
			}
		}
	}
	const resourceType = len(described) - 1
	if el.Kind() != '{' || typed || has[resourceType] {
		return
	}
	var found [len(described)]wire.Value
	if uri.Kind() == '"' {
		for m := range wire.ValueOf(describe(uri.Str())).Members() {
			for i, d := range described {
				if !has[i] && m.Value.Kind() == d.kind && m.Is(d.name) {
					found[i] = m.Value
					break
				}
			}
		}
	}
	for i, d := range described {
		if i == resourceType && !sized {
			e.addSize(el, body, blob)
		}
		switch {
		case found[i].Exists():
			e.Begin().Add(el, d.name, found[i].Raw())
		case i == resourceType && mime.IsString(directoryMIME):
			e.Begin().Add(el, d.name, wire.String(collection))
		}
	}
}

// addSize adds the size of the body, if there is one that has a size.
func (e *editor) addSize(el, body wire.Value, blob bool) {
	size, ok := 0, body.Exists()
	switch {
	case !ok:
	case blob:
		size, ok = content.Base64Size(body)
	default:
		size = content.TextSize(body)
	}
	if ok {
		e.Begin().Add(el, "size", strconv.AppendInt(nil, int64(size), 10))
	}
}

// ListItem returns a resource or a template as lists have it, with the type that its
// MIME type tells: a directory is a collection. One that says what its type is,
// in the first form of the draft or in the later one, is left as it is.
func ListItem(item wire.Raw) wire.Raw {
	if !content.MayContain(item, directoryMIME) {
		return item
	}
	directory := false
	for m := range wire.ValueOf(item).Members() {
		switch {
		case m.Is("mimeType"):
			directory = m.Value.IsString(directoryMIME)
		case m.Is("resourceType"), m.Is("capabilities"):
			return item
		}
	}
	if !directory {
		return item
	}
	return wire.SetMember(item, "resourceType", wire.String(collection))
}
