package catalog

import (
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// Entry is one published item. It is immutable.
type Entry struct {
	Kind   call.Kind
	Native string
	Public string
	Raw    wire.Raw // the item as clients see it
	// Input and Output are a tool's schemas to hold arguments and results
	// against, nil where there are none, or none that can be checked. Output is
	// nil too where nothing is checked.
	Input, Output *toolschema.Schema

	part     *Part
	index    int    // among the table's entries of the kind
	next     *Entry // the same web address, listed by a later upstream
	repeated bool   // an earlier upstream lists the same web address
	// own is the name that the item would have if no other had it; "" for most. Rules
	// that refuse it refuse this item.
	preferredName string
	// early says that the item will have that name unless an upstream before lists it,
	// which is not known yet. Policy must allow it under both.
	provisional bool
}

// Fault is what is remarkable about an item.
type Issue uint8

// The faults. Quarantined items and duplicates are not published.
const (
	Quarantined   Issue = iota // it lacks what its schema requires
	Duplicate                  // its upstream lists the name more than once; the first counts
	Clash                      // another item has the public name that it would have
	Shortened                  // the native name does not fit into a public one
	Nonconforming              // it does not keep to the specification, and is published
	Sanitized                  // something was taken out of its text
	Unmatched                  // an override is for an item that the upstream does not have
	Held                       // its definition is not the accepted one; it is not published
)

// String returns the fault in one word.
func (f Issue) String() string {
	return [...]string{"quarantined", "duplicate", "clash", "shortened", "nonconforming", "sanitized", "unmatched", "held"}[f]
}

// Finding reports something about an item, for logs and checks.
type Finding struct {
	Issue    Issue
	Kind     call.Kind
	Upstream string
	Native   string // "" when the item has no usable name, or it is about no item
	Public   string // "" when the item is not published
	Reason   string

	Against conform.Kind    // of what is Nonconforming, Quarantined or Duplicate: the fault against the specification
	Mended  bool            // and whether clients get it without
	Removed sanitize.Counts // of what is Sanitized: what was taken out
}

// String returns the finding as one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s %q %s: %s", f.Upstream, f.Kind, f.Native, f.Issue, f.Reason)
	if f.Public != "" {
		s += fmt.Sprintf(" (published as %q)", f.Public)
	}
	return s
}
