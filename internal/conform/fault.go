package conform

import (
	"strconv"
	"strings"
	"sync"

	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// Fault is a sort of fault against the specification.
type Fault uint8

// The faults.
const (
	WrongType           Fault = iota // a member is of another JSON type than it must be
	Missing                          // a required member is not there
	NullMember                       // null stands where an optional member should be left out
	DuplicateMember                  // a member stands twice
	Misplaced                        // a member stands in another place, or under another name, than its own
	InvalidValue                     // a member has a value that is not among those that it can have
	UnknownBlock                     // a content block of a type that no revision has
	NewerThanRevision                // something that came after the revision that the upstream speaks
	InvalidBase64                    // data that is no Base64
	InvalidMIMEType                  // a MIME type that is none
	InvalidAnnotation                // audience, priority or lastModified
	InvalidMeta                      // _meta that is no object, or a key of it
	InvalidURI                       // a URI or a template that is none
	InvalidIcon                      // an icon
	InvalidRole                      // a role that is neither user nor assistant
	TextAndBlob                      // contents that have both, or a text and a blob that contradict
	StructuredAlone                  // structuredContent without a text that says the same
	StructuredMissing                // no structuredContent although the tool has an outputSchema
	StructuredMismatch               // structuredContent that does not fit the outputSchema
	StructuredNotObject              // structuredContent that is no object, of a revision that wants one
	SchemaInvalid                    // a schema that is none
	SchemaUnchecked                  // a schema that is too large or too costly to check
	InvalidName                      // the name of a tool
	DuplicateItem                    // a list has an item twice
	MissingMIMEType                  // contents without the MIME type that the list gives
	DocumentContents                 // contents of a document (SEP-2093) that are none, or of other resources
)

// Faults is the number of faults.
const Faults = 26

var faultNames = [Faults]string{
	"wrong_type", "missing_member", "null_member", "duplicate_member", "misplaced_member", "invalid_value",
	"unknown_block_type", "newer_than_revision", "invalid_base64", "invalid_mime_type", "invalid_annotation",
	"invalid_meta", "invalid_uri", "invalid_icon", "invalid_role", "text_and_blob", "structured_alone",
	"structured_missing", "structured_mismatch", "structured_not_object", "schema_invalid",
	"schema_unchecked", "invalid_name", "duplicate_item", "missing_mime_type",
	"document_contents",
}

// String returns the fault as metrics label it. It never changes.
func (f Fault) String() string { return faultNames[f] }

// Finding is one fault in what an upstream sent.
type Finding struct {
	Fault Fault
	Path  string // JSONPath, $ for the result or the item itself
	Words string // what is wrong, and what would be right
	// Section is where the specification says so: revision, page, "heading".
	Section string
	// Mended says that what the client gets does not have the fault.
	Mended bool
}

// String returns the finding as one line.
func (f Finding) String() string { return f.Path + ": " + f.Words + " (" + f.Section + ")" }

// maxFindings bounds what is said about one result or item.
const maxFindings = 32

// maxPath bounds how deep the places are that are checked one by one.
const maxPath = 12

// Sections of the specification.
const (
	secTool       = `server/tools, "Tool"`
	secToolNames  = `server/tools, "Tool Names"`
	secToolResult = `server/tools, "Tool Result"`
	secStructured = `server/tools, "Structured Content"`
	secOutput     = `server/tools, "Output Schema"`
	secPrompt     = `server/prompts, "Data Types"`
	secMessages   = `server/prompts, "PromptMessage"`
	secResource   = `server/resources, "Resource"`
	secTemplate   = `server/resources, "Resource Templates"`
	secContents   = `server/resources, "Resource Contents"`
	secAnnotation = `server/resources, "Annotations"`
	secComplete   = `server/utilities/completion, "Completion Results"`
	secMeta       = `basic, "_meta"`
	secIcons      = `basic, "icons"`
	secDraft      = `SEP-2093, "Multi-Content Semantics"`
	secDrafted    = `SEP-2093, "Resource Contents Extend Resource"`
	secJSON       = `basic, "Messages"`
)

// isDraft reports whether a section is that of a draft, which is of no revision.
func isDraft(section string) bool { return strings.HasPrefix(section, "SEP-") }

// walk goes through one document, collects what is wrong with it, and makes the
// document that mends it.
type walk struct {
	rev  wire.Revision
	mend bool
	// stuck counts faults that have no answer.
	stuck    int
	findings []Finding
	more     int // findings that were left out
	steps    [maxPath]pathStep
	depth    int

	// What a result is held against.
	subject Subject
	// raised is the isError of a block that belongs to its result.
	raised wire.Raw
}

// walks keeps walkers: a result without faults costs no memory.
var walks = sync.Pool{New: func() any { return new(walk) }}

func (w *walk) release() {
	*w = walk{}
	walks.Put(w)
}

// pathStep is a member, or an element where name is "".
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

// path returns the place where the walk is, and a member of it.
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

// found notes a fault of the value where the walk is. mended says that there is
// an answer to it.
func (w *walk) found(f Fault, section string, mended bool, words string) {
	w.foundAt(w.path(""), f, section, mended, words)
}

// foundIn notes a fault of a member of the value where the walk is.
func (w *walk) foundIn(member string, f Fault, section string, mended bool, words string) {
	w.foundAt(w.path(member), f, section, mended, words)
}

func (w *walk) foundAt(path string, f Fault, section string, mended bool, words string) {
	if len(w.findings) == maxFindings {
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
	w.findings = append(w.findings, Finding{f, path, words, section, mended && w.mend})
}
