package catalog

import "mcpgateway/internal/call"

// Upstream returns the name of the upstream that lists the item.
func (e *Entry) Upstream() string { return e.part.Upstream() }

// Own returns the public name that the item would have if no other had it, "" where
// it has that.
func (e *Entry) PreferredName() string { return e.preferredName }

// Entries returns the items that lists show, in their order. The caller must not
// change it.
func (v *View) Entries(kind call.Kind) []*Entry { return v.listed[kind] }
