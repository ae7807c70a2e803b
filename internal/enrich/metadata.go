package enrich

import (
	"strconv"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// editor adds members to one document.
type editor struct{ content.LazyEdit }

// The resourceType and the MIME type of a directory (SEP-2093, "Add resourceType to
// Resource").
const (
	collection    = "collection"
	directoryMIME = "inode/directory"
)

// described are the members that contents share with their resource (SEP-2093, "Resource
// Contents Extend Resource"), in the order in which they are added, and the JSON kinds of
// their values. The size is not among them: that of contents is computed.
var described = [...]struct {
	name string
	kind byte
}{
	{"name", '"'}, {"title", '"'}, {"description", '"'}, {"icons", '['}, {"annotations", '{'}, {"resourceType", '"'},
}

// ReadResult adds the metadata of resources to the contents in a result of
// resources/read. describe returns the list item of a public URI, or nil. Members that
// are present stay as they are. An element with resourceType or capabilities is not
// changed, since its server implements the draft.
//
// The size of a text or blob is computed without decoding it.
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

// describe adds the missing members to one element.
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

// addSize adds the size of a text or a valid blob.
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

// ListItem adds the resourceType to a list item of a resource or a template whose MIME
// type is that of a directory. An item with resourceType or capabilities, as in later
// versions of the draft, is not changed.
func ListItem(item wire.Raw) wire.Raw {
	if !wire.ValueOf(item).MayContain(directoryMIME) {
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
