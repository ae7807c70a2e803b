package conform

import "mcpgateway/internal/wire"

// KnowsNote reports whether a client of revision rev can know notifications of
// that method. It cannot when they came later, or were taken out before; such
// ones are to be dropped and counted as [Notification]. The params of
// notifications are the same for all revisions but for members that older
// clients overlook.
func KnowsNote(rev wire.Revision, method string) bool {
	switch method {
	case wire.NoteElicitComplete, wire.NoteTaskStatus:
		return rev.AtLeast(wire.Rev20251125) && !rev.AtLeast(wire.Rev20260728)
	case wire.NoteAcknowledged, wire.NoteTasks:
		return rev.AtLeast(wire.Rev20260728)
	default:
		return true
	}
}
