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
	// Input and Output are the schemas of a tool for arguments and results, nil if there are
	// none or they cannot be checked. Output is nil, too, if results are not checked.
	Input, Output *toolschema.Schema
	// HeaderParams are the parameters of a tool that requests mirror into headers, as Raw says.
	HeaderParams []wire.HeaderParam

	part      *Part
	index     int    // among the table's entries of the kind
	next      *Entry // the same web address, listed by a later upstream
	repeated  bool   // an earlier upstream lists the same web address
	unlisted  bool   // lists of the profile leave it out
	wholeView bool   // an own item whose answer depends on the whole view
	meta      bool   // a tool of the gateway's own that serves the use of others: searches leave it out
	ordinary  *Entry // in the table without a profile, nil if this is it
	// preferredName is the public name that the item would have if no other item had it, "" for
	// most. Rules that deny that name deny this item.
	preferredName string
	// provisional says that the item will get its preferred name unless an earlier upstream lists
	// it, which is not known yet. Policy must allow both names.
	provisional bool
}

// setRaw sets the item as clients see it.
func (e *Entry) setRaw(raw wire.Raw) {
	e.Raw, e.HeaderParams = raw, nil
	if e.Kind == call.Tool && wire.MayHaveHeaderParams(raw) {
		// An invalid schema is an error of the upstream, for which no client is refused.
		e.HeaderParams, _ = wire.HeaderParams(wire.ValueOf(raw).Get("inputSchema").Raw())
	}
}

// HasHeaderParams reports whether a tool with this public name, which policy may refuse to a
// caller, mirrors parameters into headers.
func (t *Table) HasHeaderParams(public string) bool {
	e := t.public[call.Tool][public]
	return e != nil && len(e.HeaderParams) > 0
}

// Issue is the kind of a finding about an item.
type Issue uint8

// The issues. Items that are quarantined, held or duplicates are not published.
const (
	Quarantined   Issue = iota // a required member is missing
	Duplicate                  // its upstream lists the name more than once; the first counts
	Clash                      // another item has its public name
	Shortened                  // the native name does not fit into a public one
	Nonconforming              // it violates the specification and is published
	Sanitized                  // characters were removed from its text
	Unmatched                  // an override names no item of the upstream
	Held                       // its definition is not the pinned one
)

// String returns the issue in one word.
func (f Issue) String() string {
	return [...]string{"quarantined", "duplicate", "clash", "shortened", "nonconforming", "sanitized", "unmatched", "held"}[f]
}

// Finding is an issue of one item, for logs and checks.
type Finding struct {
	Issue    Issue
	Kind     call.Kind
	Upstream string
	Native   string // "" if there is no item with a usable name
	Public   string // "" if the item is not published
	HeldName string // the public name that a held item would have; "" for other issues
	Reason   string

	Against  conform.Kind    // the violation; for Nonconforming, Quarantined and Duplicate
	Repaired bool            // clients do not see the violation
	Removed  sanitize.Counts // for Sanitized
}

// String returns the finding as one line.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s %q %s: %s", f.Upstream, f.Kind, f.Native, f.Issue, f.Reason)
	if f.Public != "" {
		s += fmt.Sprintf(" (published as %q)", f.Public)
	}
	return s
}
