package conform

import (
	"strconv"
	"strings"
	"sync"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// Kind is a kind of violation of the specification.
type Kind uint8

// The kinds of violations.
const (
	WrongType           Kind = iota // a member has the wrong JSON type
	Missing                         // a required member is missing
	NullMember                      // an optional member is null instead of absent
	DuplicateMember                 // an object has two members of the same name
	Misplaced                       // a member has the wrong name, or is in the wrong object
	InvalidValue                    // a member has a value that it must not have
	UnknownBlock                    // no revision has a content block of this type
	NewerThanRevision               // the upstream's revision does not have this content block
	InvalidBase64                   // data is not Base64
	InvalidMIMEType                 // a MIME type is malformed
	InvalidAnnotation               // audience, priority or lastModified is invalid
	InvalidMeta                     // _meta or one of its keys is invalid
	InvalidURI                      // a URI or a URI template is malformed
	InvalidIcon                     // an icon is invalid
	InvalidRole                     // a role is neither user nor assistant
	TextAndBlob                     // contents have both text and blob
	StructuredAlone                 // structuredContent has no text block beside it
	StructuredMissing               // the tool has an outputSchema, its result no structuredContent
	StructuredMismatch              // structuredContent does not match the outputSchema
	StructuredNotObject             // structuredContent is not an object, in a revision that requires one
	SchemaInvalid                   // a schema is invalid
	SchemaUnchecked                 // a schema is too large or too costly to check
	InvalidName                     // a tool has a name against the recommendation
	DuplicateItem                   // a list contains an item twice
	MissingMIMEType                 // contents lack the MIME type that the list gives
	DocumentContents                // contents of a document (SEP-2093) are missing, or belong to other resources
)

// Kinds is the number of kinds.
const Kinds = 26

var kindNames = [Kinds]string{
	"wrong_type", "missing_member", "null_member", "duplicate_member", "misplaced_member", "invalid_value",
	"unknown_block_type", "newer_than_revision", "invalid_base64", "invalid_mime_type", "invalid_annotation",
	"invalid_meta", "invalid_uri", "invalid_icon", "invalid_role", "text_and_blob", "structured_alone",
	"structured_missing", "structured_mismatch", "structured_not_object", "schema_invalid",
	"schema_unchecked", "invalid_name", "duplicate_item", "missing_mime_type",
	"document_contents",
}

// String returns the label of the kind in metrics. Labels never change.
func (k Kind) String() string { return kindNames[k] }

// Violation is one violation of the specification in a result or an item.
type Violation struct {
	Kind    Kind
	Path    string // a JSONPath; $ is the result or the item itself
	Message string // what is wrong, and what is expected
	// Section is the section of the specification: revision, page, "heading".
	Section string
	// Repaired says that the document for the client does not have the violation.
	Repaired bool
}

// String returns the violation as one line.
func (v Violation) String() string { return v.Path + ": " + v.Message + " (" + v.Section + ")" }

// maxViolations bounds the violations that are reported for one result or item.
const maxViolations = 32

// maxPath bounds the steps of a path.
const maxPath = 12

// Sections of the specification.
const (
	secTool             = `server/tools, "Tool"`
	secToolNames        = `server/tools, "Tool Names"`
	secToolResult       = `server/tools, "Tool Result"`
	secStructured       = `server/tools, "Structured Content"`
	secOutput           = `server/tools, "Output Schema"`
	secPrompt           = `server/prompts, "Data Types"`
	secMessages         = `server/prompts, "PromptMessage"`
	secResource         = `server/resources, "Resource"`
	secTemplate         = `server/resources, "Resource Templates"`
	secContents         = `server/resources, "Resource Contents"`
	secAnnotation       = `server/resources, "Annotations"`
	secComplete         = `server/utilities/completion, "Completion Results"`
	secMeta             = `basic, "_meta"`
	secIcons            = `basic, "icons"`
	secSEP2093Documents = `SEP-2093, "Multi-Content Semantics"`
	secSEP2093          = `SEP-2093, "Resource Contents Extend Resource"`
	secJSON             = `basic, "Messages"`
)

// isDraft reports whether a section belongs to a draft, which no revision contains.
func isDraft(section string) bool { return strings.HasPrefix(section, "SEP-") }

// walk walks through one document, collects its violations, and builds the repaired
// document.
type walk struct {
	rev    wire.Revision
	repair bool
	// unrepaired counts violations that cannot be repaired and that clients reject.
	unrepaired int
	violations []Violation
	more       int // violations beyond maxViolations
	steps      [maxPath]pathStep
	depth      int

	// checker is the checker of a result, zero for an item.
	checker ResultChecker
	// isError is the isError of a content block, which belongs to the result.
	isError wire.Raw
}

// walks pools walks, so that a result without violations costs no allocation.
var walks = sync.Pool{New: func() any { return new(walk) }}

func (w *walk) release() {
	*w = walk{}
	walks.Put(w)
}

// pathStep is a member, or an array element if name is "".
type pathStep struct {
	name  string
	index int
}

func (w *walk) push(name string, index int) {
	if w.depth < maxPath {
		w.steps[w.depth] = pathStep{name, index}
	}
	w.depth++
}

func (w *walk) pop() { w.depth-- }

// path returns the path of the current value, or of a member of it.
func (w *walk) path(member string) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range w.steps[:min(w.depth, maxPath)] {
		if s.name == "" {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		}
		content.AppendPath(&b, s.name)
	}
	if member != "" {
		content.AppendPath(&b, member)
	}
	return b.String()
}

// report reports a violation of the current value. repairable says whether the walk
// repairs it in the mode [Repair].
func (w *walk) report(k Kind, section string, repairable bool, message string) {
	w.reportAt(w.path(""), k, section, repairable, message)
}

// reportMember reports a violation of a member of the current value.
func (w *walk) reportMember(member string, k Kind, section string, repairable bool, message string) {
	w.reportAt(w.path(member), k, section, repairable, message)
}

func (w *walk) reportAt(path string, k Kind, section string, repairable bool, message string) {
	if len(w.violations) == maxViolations {
		w.more++
		return
	}
	rev := w.rev
	if rev == "" {
		rev = wire.LatestModern
	}
	if !isDraft(section) {
		section = string(rev) + ", " + section
	}
	w.violations = append(w.violations, Violation{k, path, message, section, repairable && w.repair})
}
