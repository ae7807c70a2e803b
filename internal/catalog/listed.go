package catalog

import "mcpgateway/internal/call"

// Upstream returns the name of the upstream that lists the item.
func (e *Entry) Upstream() string { return e.part.Upstream() }

// PreferredName returns the public name that the item would have if no other item had it,
// "" if it has that name.
func (e *Entry) PreferredName() string { return e.preferredName }

// Tools returns the tools that the caller may call, in the order of lists, without own tools that
// serve the use of others. Lists may show fewer. The slice must not be changed.
func (v *View) Tools() []*Entry { return v.tools }

// Entries returns the listed items in order. The slice must not be changed.
func (v *View) Entries(kind call.Kind) []*Entry { return v.listed[kind] }
