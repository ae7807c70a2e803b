package call

import "mcpgateway/internal/wire"

// Kind is the kind of item that a name or URI belongs to.
type Kind uint8

// The kinds of items. A Template is an RFC 6570 template of resource URIs.
const (
	Tool Kind = iota
	Resource
	Template
	Prompt
)

// Kinds is the number of kinds, for arrays that are indexed by kind.
const Kinds = 4

// KindOf returns the kind of an item type in the table of methods, which must be
// that of one kind.
func KindOf(item wire.Item) Kind { return Kind(item - wire.ItemTool) }

// Method returns the method that uses items of the kind. A template is used by
// reading a resource that matches it.
func (k Kind) Method() string { return wire.UsedBy(wire.ItemTool + wire.Item(k)) }

// String returns the singular, for logs and findings.
func (k Kind) String() string { return [Kinds]string{"tool", "resource", "template", "prompt"}[k] }

// Plural returns the plural, for metrics and tables.
func (k Kind) Plural() string {
	return [Kinds]string{"tools", "resources", "templates", "prompts"}[k]
}
