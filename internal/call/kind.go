package call

// Kind says what sort of item a name or URI belongs to.
type Kind uint8

// The kinds of items. A Template is an RFC 6570 template of resource URIs.
const (
	Tool Kind = iota
	Resource
	Template
	Prompt
)

// Kinds is the number of kinds: an array of that length has a place for each.
const Kinds = 4

// String returns the kind in the singular, as logs and findings say it.
func (k Kind) String() string { return [Kinds]string{"tool", "resource", "template", "prompt"}[k] }

// Plural returns the kind in the plural, as metrics and tables say it.
func (k Kind) Plural() string {
	return [Kinds]string{"tools", "resources", "templates", "prompts"}[k]
}
