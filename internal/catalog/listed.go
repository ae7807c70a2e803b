package catalog

import "mcpgateway/internal/call"

// Upstream returns the name of the upstream that lists the item.
func (e *Entry) Upstream() string { return e.part.Upstream() }

// Entries returns the items that lists show, in their order. The caller must not
// change it.
func (v *View) Entries(kind call.Kind) []*Entry { return v.listed[kind] }
