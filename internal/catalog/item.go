package catalog

import (
	"fmt"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// Entry is one published item. It is immutable.
type Entry struct {
	Kind   call.Kind
	Native string
	Public string
	Raw    wire.Raw // the item as clients see it

	part  *Part
	index int    // among the table's entries of the kind
	next  *Entry // the same web address, listed by a later upstream
	again bool   // an earlier upstream lists the same web address
}

// Fault is what is remarkable about an item.
type Fault uint8

// The faults. Quarantined items and duplicates are not published.
const (
	Quarantined Fault = iota // it lacks what its schema requires
	Duplicate                // its upstream lists the name more than once; the first counts
	Clash                    // another item has the public name that it would have
	Shortened                // the native name does not fit into a public one
)

// String returns the fault in one word.
func (f Fault) String() string {
	return [...]string{"quarantined", "duplicate", "clash", "shortened"}[f]
}

// Finding reports something about an item, for logs and checks.
type Finding struct {
	What     Fault
	Kind     call.Kind
	Upstream string
	Native   string // "" when the item has no usable name
	Public   string // "" when the item is not published
	Reason   string
}

// String returns the finding as one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s %q %s: %s", f.Upstream, f.Kind, f.Native, f.What, f.Reason)
	if f.Public != "" {
		s += fmt.Sprintf(" (published as %q)", f.Public)
	}
	return s
}

// Bounds on templates, which come from upstreams and are compiled.
const (
	maxTemplate     = 2048 // bytes
	maxTemplateVars = 64
)

// nativeName returns the native name of an upstream's item, and what is wrong
// with the item when it must not be published, "" when nothing is.
func nativeName(kind call.Kind, raw wire.Raw) (native, fault string) {
	var name, title, schema wire.Value // title is the name of an item that its URI identifies
	id := namespace.NameMember(kind)
	root := wire.ValueOf(raw)
	if root.Kind() != '{' {
		return "", "the item is no object"
	}
	for m := range root.Members() {
		var slot *wire.Value
		switch {
		case m.Is(id):
			slot = &name
		case m.Is("name"):
			slot = &title
		case kind == call.Tool && m.Is("inputSchema"):
			slot = &schema
		default:
			continue
		}
		if slot.Exists() {
			return name.Str(), fmt.Sprintf("the member %q stands twice", m.Key.Str())
		}
		*slot = m.Value
	}
	native, ok := name.Text()
	if !ok {
		return "", fmt.Sprintf("%q is missing or no string", id)
	}
	switch kind {
	case call.Tool, call.Prompt:
		if native == "" {
			return "", `"name" is empty`
		}
	case call.Resource, call.Template:
		if _, ok := title.Text(); !ok {
			return native, `"name" is missing or no string`
		}
	}
	switch kind {
	case call.Tool:
		if !schema.Get("type").IsString("object") {
			return native, `"inputSchema" must be an object whose "type" is "object"`
		}
	case call.Template:
		return native, templateFault(native)
	}
	return native, ""
}

func templateFault(text string) string {
	if len(text) > maxTemplate || templateVars(text) > maxTemplateVars {
		return fmt.Sprintf(`"uriTemplate" is larger than %d bytes or %d variables`, maxTemplate, maxTemplateVars)
	}
	if _, err := uritemplate.New(text); err != nil {
		return fmt.Sprintf(`"uriTemplate" is no template of RFC 6570: %v`, err)
	}
	return ""
}

// templateVars returns how many variables a template can have.
func templateVars(text string) int { return strings.Count(text, "{") + strings.Count(text, ",") }
