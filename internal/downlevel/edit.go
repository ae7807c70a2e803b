package downlevel

import (
	"mcpgateway/internal/content"
	"mcpgateway/internal/wire"
)

// editor replaces parts of one document and counts them.
type editor struct {
	content.LazyEdit
	counts Counts
}

// count counts a replacement and returns the edit to make it with.
func (e *editor) count(k Kind) *wire.Edit {
	e.counts[k]++
	return e.Begin()
}

// done returns the document with all replacements, and their counts.
func (e *editor) done() (wire.Raw, Counts) { return e.Bytes(), e.counts }
