package conform

import (
	"slices"

	"mcpgateway/internal/namespace"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// Mode says what becomes of faults in what an upstream sends.
type Mode uint8

// The modes. The zero Mode warns.
const (
	Warn   Mode = iota // they are reported
	Repair             // those with one right answer are mended too
	Strict             // the answer that has them becomes an error that names them
	Off                // nothing is looked at
)

// Listed returns what lists say of a resource.
type Listed interface {
	// Listed returns the list item with this public URI, nil when there is none.
	Listed(uri string) wire.Raw
}

// Subject is what results of one request are held against.
type Subject struct {
	Mode     Mode
	Revision wire.Revision // that the upstream speaks, "" when unknown
	Method   string
	// Output is the outputSchema of the tool that was called, nil when it has
	// none.
	Output *toolschema.Schema
	// Resources says what lists say of resources; nil: nothing is known.
	Resources Listed
	// Space and Asked are the naming that the result was rewritten with. What is
	// brought to its place by repair has to be rewritten there.
	Space *namespace.Space
	Asked namespace.Asked
}

// Verdict is what was found out about one result.
type Verdict struct {
	// Result is what the client gets: the very slice that was checked unless
	// something was mended or refused.
	Result   wire.Raw
	Findings []Finding
	More     int // findings beyond those
	// Refused says that an error takes the place of what the upstream sent: Err,
	// or a Result that is one.
	Refused bool
	// Err takes the place of the result where that is refused and the method
	// has no result that could say so.
	Err *wire.Error
}

// public returns the public form of a native URI.
func (s Subject) public(native string) string {
	switch {
	case s.Space == nil:
		return native
	case native == s.Asked.Native && s.Asked.Public != "":
		return s.Asked.Public
	}
	return s.Space.PublicURI(native)
}

func (s Subject) asked() string {
	return s.Asked.Public
}

// rewritten returns a result whose parts were brought to their places, under
// public names.
func (s Subject) rewritten(result wire.Raw) wire.Raw {
	if s.Space == nil {
		return result
	}
	return s.Space.Result(s.Method, result, s.Asked)
}

// rewrittenBlock returns a block whose type was not known before, under public
// names.
func (s Subject) rewrittenBlock(block wire.Raw) wire.Raw {
	if s.Space == nil {
		return block
	}
	result := append(append(wire.Raw(`{"content":[`), block...), `]}`...)
	for el := range wire.ValueOf(s.Space.Result(wire.MethodToolsCall, result, s.Asked)).Get("content").Elements() {
		return el.Raw()
	}
	return block
}

// listedType returns the MIME type that lists give for a resource, "" when they
// give none.
func (s Subject) listedType(uri wire.Value) string {
	if s.Resources == nil || uri.Kind() != '"' {
		return ""
	}
	mime := wire.ValueOf(s.Resources.Listed(uri.Str())).Get("mimeType").Str()
	if !isMIMEType(mime) {
		return ""
	}
	return mime
}

// isChecked reports whether results of the method are checked.
func isChecked(method string) bool {
	switch wire.MethodOf(method).Shape {
	case wire.ShapeToolResult, wire.ShapePrompt, wire.ShapeContents, wire.ShapeCompletion:
		return true
	}
	return false
}

// Check holds a result, a valid JSON object with public names, against what the
// specification demands of it, and does what the mode says. A result that is not
// the last word (a question, a task) passes untouched.
func (s Subject) Check(result wire.Raw) Verdict {
	if s.Mode == Off || !isChecked(s.Method) || !isFinal(result) {
		return Verdict{Result: result}
	}
	w := walks.Get().(*walk)
	defer w.release()
	w.rev, w.mend, w.subject = s.Revision, s.Mode == Repair, s
	fix := w.result(result)
	v := Verdict{Result: result, Findings: w.findings, More: w.more}
	w.findings = nil
	switch s.Mode {
	case Repair:
		if fix != nil {
			v.Result = fix
		}
		if w.stuck > 0 {
			s.refuse(&v, result)
		}
	case Strict:
		if slices.ContainsFunc(v.Findings, func(f Finding) bool { return !f.advice() }) {
			v.Result = nil
			s.refuse(&v, result)
		}
	}
	return v
}

// advice reports whether the fault is against a recommendation or a draft only, or
// none of the upstream's: strictness does not refuse a result for it.
func (f Finding) advice() bool {
	switch f.Fault {
	case StructuredAlone, MissingMIMEType, InvalidName, SchemaUnchecked, SchemaInvalid:
		return true
	}
	return isDraft(f.Section)
}

func (w *walk) result(result wire.Raw) wire.Raw {
	switch wire.MethodOf(w.subject.Method).Shape {
	case wire.ShapePrompt:
		return w.prompt(result)
	case wire.ShapeContents:
		return w.read(result)
	case wire.ShapeCompletion:
		return w.completion(result)
	default:
		return w.toolResult(result)
	}
}

// isFinal reports whether a result is what its method is for: not a request for
// input, and no task that will have it.
func isFinal(result wire.Raw) bool {
	root := wire.ValueOf(result)
	kind := wire.Value{}
	task := false
	for m := range root.Members() {
		switch {
		case m.Is("resultType"):
			kind = m.Value
		case m.Is("task"):
			task = m.Value.Get("taskId").Exists()
		case m.Is("content"):
			return !kind.Exists() || kind.IsString("complete") || kind.Kind() != '"'
		}
	}
	return !task && (!kind.Exists() || kind.IsString("complete") || kind.Kind() != '"')
}
