package content

import "mcpgateway/internal/wire"

// LazyEdit edits one document. It allocates nothing before the first change.
type LazyEdit struct {
	Doc  wire.Raw
	edit *wire.Edit
}

// Begin returns the edit.
func (e *LazyEdit) Begin() *wire.Edit {
	if e.edit == nil {
		e.edit = wire.NewEdit(e.Doc)
	}
	return e.edit
}

// Bytes returns the document with all changes: Doc itself if there are none.
func (e *LazyEdit) Bytes() wire.Raw {
	if e.edit == nil {
		return e.Doc
	}
	return e.edit.Bytes()
}
