package conform

import "mcpgateway/internal/wire"

// The notifications of tasks: of the core of 2025-11-25, and of the extension
// that came after it.
const (
	noteTaskStatus = "notifications/tasks/status"
	noteTask       = "notifications/tasks"
)

// KnowsNote reports whether a client of revision rev can know notifications of
// that method. It cannot when they came later, or were taken out before; such
// ones are to be dropped and counted as [Notification]. The params of
// notifications are the same for all revisions but for members that older
// clients overlook.
func KnowsNote(rev wire.Revision, method string) bool {
	switch method {
	case wire.NoteElicitComplete, noteTaskStatus:
		return rev.AtLeast(wire.Rev20251125) && !rev.AtLeast(wire.Rev20260728)
	case wire.NoteAcknowledged, noteTask:
		return rev.AtLeast(wire.Rev20260728)
	default:
		return true
	}
}
