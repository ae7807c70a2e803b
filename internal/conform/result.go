package conform

import (
	"slices"

	"mcpgateway/internal/namespace"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// Mode says how violations by an upstream are treated.
type Mode uint8

// The modes. The zero Mode warns.
const (
	Warn   Mode = iota // report them
	Repair             // report them, and repair those with one right answer
	Strict             // replace the result by an error that names them
	Off                // check nothing
)

// ListedResources finds the list items of resources.
type ListedResources interface {
	// Listed returns the list item with this public URI, nil if there is none.
	Listed(uri string) wire.Raw
}

// ResultChecker checks the result of one request.
type ResultChecker struct {
	Mode     Mode
	Revision wire.Revision // that the upstream speaks, "" if unknown
	Method   string
	// Output is the outputSchema of the called tool, nil if it has none.
	Output    *toolschema.Schema
	Resources ListedResources // may be nil
	// Space and Asked are the naming with which the names in the result were made
	// public. Parts that a repair moves have to be rewritten with it again.
	Space *namespace.Naming
	Asked namespace.Asked
	// Long is about the result, or nil.
	Long *wire.Long
}

// Verdict is the outcome of the check of one result.
type Verdict struct {
	// Result is the result for the client: the very slice that was checked, unless it was
	// repaired or refused.
	Result     wire.Raw
	Violations []Violation
	More       int // the number of further violations
	// Refused says that an error replaces the result: Err, or a Result with isError.
	Refused bool
	Reason  string // why the result is refused: the violations, in words
	// Err replaces a refused result of a method whose results have no isError.
	Err *wire.Error
}

// public returns the public form of a native URI.
func (s ResultChecker) public(native string) string {
	switch {
	case s.Space == nil:
		return native
	case native == s.Asked.Native && s.Asked.Public != "":
		return s.Asked.Public
	}
	return s.Space.PublicURI(native)
}

func (s ResultChecker) asked() string {
	return s.Asked.Public
}

// rewritten returns a result, whose parts were moved, with public names.
func (s ResultChecker) rewritten(result wire.Raw) wire.Raw {
	if s.Space == nil {
		return result
	}
	return s.Space.Result(s.Method, wire.ValueOf(result), s.Asked)
}

// rewrittenBlock returns a block, whose type was not known before, with public names.
func (s ResultChecker) rewrittenBlock(block wire.Raw) wire.Raw {
	if s.Space == nil {
		return block
	}
	result := append(append(wire.Raw(`{"content":[`), block...), `]}`...)
	for el := range wire.ValueOf(s.Space.Result(wire.MethodToolsCall, wire.ValueOf(result), s.Asked)).Get("content").Elements() {
		return el.Raw()
	}
	return block
}

// listedType returns the MIME type that lists give for a resource, "" if they give none.
func (s ResultChecker) listedType(uri wire.Value) string {
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

// Check checks a result, a valid JSON object with public names, and repairs or refuses it
// as the mode says. It does not look at results that request input or name a task.
func (s ResultChecker) Check(result wire.Raw) Verdict {
	if s.Mode == Off || !isChecked(s.Method) || !isFinal(s.Long.ValueOf(result)) {
		return Verdict{Result: result}
	}
	w := walks.Get().(*walk)
	defer w.release()
	w.rev, w.repair, w.checker = s.Revision, s.Mode == Repair, s
	fix := w.result(result)
	v := Verdict{Result: result, Violations: w.violations, More: w.more}
	w.violations = nil
	switch s.Mode {
	case Repair:
		if fix != nil {
			v.Result = fix
		}
		if w.unrepaired > 0 {
			s.refuse(&v, result)
		}
	case Strict:
		if slices.ContainsFunc(v.Violations, func(v Violation) bool { return !v.isAdvice() }) {
			v.Result = nil
			s.refuse(&v, result)
		}
	}
	return v
}

// isAdvice reports whether the violation concerns a recommendation or a draft, or may not be
// caused by the upstream. The mode [Strict] does not refuse a result for it.
func (v Violation) isAdvice() bool {
	switch v.Kind {
	case StructuredAlone, MissingMIMEType, InvalidName, SchemaUnchecked, SchemaInvalid:
		return true
	}
	return isDraft(v.Section)
}

// root returns the value of the result that is checked, or of one in its place.
func (w *walk) root(result wire.Raw) wire.Value { return w.checker.Long.ValueOf(result) }

func (w *walk) result(result wire.Raw) wire.Raw {
	switch wire.MethodOf(w.checker.Method).Shape {
	case wire.ShapePrompt:
		return w.checkPrompt(result)
	case wire.ShapeContents:
		return w.checkRead(result)
	case wire.ShapeCompletion:
		return w.checkCompletion(result)
	default:
		return w.checkToolResult(result)
	}
}

// isFinal reports whether a result is the final one: neither a request for input nor a
// task that will have the final result.
func isFinal(root wire.Value) bool {
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
