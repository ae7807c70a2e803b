package conform

import "mcpgateway/internal/wire"

// editor collects the replacements in one document. Its edit begins with the
// first of them, so that a document without any costs nothing.
type editor struct {
	doc   wire.Raw
	edit  *wire.Edit
	tally Tally
}

// count counts a thing that is replaced and returns the edit to replace it with.
func (e *editor) count(k Kind) *wire.Edit {
	e.tally[k]++
	return e.begin()
}

// begin returns the edit.
func (e *editor) begin() *wire.Edit {
	if e.edit == nil {
		e.edit = wire.NewEdit(e.doc)
	}
	return e.edit
}

// done returns the document after all replacements, and what they were.
func (e *editor) done() (wire.Raw, Tally) {
	if e.edit == nil {
		return e.doc, e.tally
	}
	return e.edit.Bytes(), e.tally
}
