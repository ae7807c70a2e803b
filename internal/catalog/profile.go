package catalog

import (
	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
)

// ForProfile returns the table of a profile. The table must be one of no profile, since its
// names are the ordinary ones. Both tables share the bytes of items that are the same in both.
// The table of a profile has no findings of its own.
func (t *Table) ForProfile(p *profile.Profile) *Table {
	out := &Table{
		opts: t.opts, policy: p.Policy(t.opts.Policy), ordinary: t,
		byName: make(map[string]*Part), byPrefix: make(map[string]*Part),
	}
	out.opts.Profile = p
	out.addOwn(p.Own())
	parts := make([]*Part, len(t.parts)) // by index in t
	for i, of := range t.parts {
		if p.HasUpstream(of.Upstream()) {
			parts[i] = out.addPart(of, of == t.open)
		}
	}
	entries := make(map[*Entry]*Entry) // of t → of the profile
	for kind := range call.Kind(call.Kinds) {
		for _, e := range t.entries[kind] {
			if part := parts[e.part.index]; part != nil && p.Selects(e.policyItem()) {
				entries[e] = out.addEntry(e, part)
			}
		}
	}
	for _, pattern := range t.patterns {
		if pattern.entry = entries[pattern.entry]; pattern.entry != nil {
			out.patterns = append(out.patterns, pattern)
		}
	}
	out.limitPages()
	return out
}

// Ordinary returns the table of everything from which a profile's table was made, and a table
// without a profile itself. It has the findings.
func (t *Table) Ordinary() *Table {
	if t.ordinary != nil {
		return t.ordinary
	}
	return t
}

// profileName returns the name of the table's profile, "" for the default profile and for the
// table of everything.
func (t *Table) profileName() string {
	if p := t.opts.Profile; p != nil && p.Name() != profile.Default {
		return p.Name()
	}
	return ""
}

// addPart adds a part of the ordinary table. A URI leads to the only upstream without a prefix
// if it does so in the ordinary table: a name never leads to different upstreams.
func (t *Table) addPart(of *Part, open bool) *Part {
	p := *of
	p.index = len(t.parts)
	t.parts = append(t.parts, &p)
	t.byName[p.Upstream()] = &p
	if prefix := p.naming.Prefix(); prefix != "" {
		t.byPrefix[prefix] = &p
	}
	if open {
		t.open = &p
	}
	return &p
}

// addEntry adds an entry of the ordinary table. It returns nil if an own item has its name and
// there is no other.
func (t *Table) addEntry(of *Entry, part *Part) *Entry {
	e := *of
	e.part, e.index, e.next, e.repeated, e.ordinary = part, len(t.entries[e.Kind]), nil, false, of
	if !t.yield(&e) {
		return nil
	}
	e.unlisted = e.Kind == call.Tool && !t.opts.Profile.Lists(of.policyItem())
	t.entries[e.Kind] = append(t.entries[e.Kind], &e)
	before := t.public[e.Kind][e.Public]
	if before == nil {
		t.public[e.Kind][e.Public] = &e
		return &e
	}
	e.repeated = true // the same web address
	for before.next != nil {
		before = before.next
	}
	before.next = &e
	return &e
}

// policyItem returns the entry for policy, which knows it by its ordinary name and definition.
func (e *Entry) policyItem() policy.Item {
	o := e.Ordinary()
	return policy.Item{
		Kind: o.Kind, Upstream: o.part.Upstream(), Public: o.Public, PreferredName: o.preferredName, Native: o.Native, Raw: o.Raw,
	}
}

// Ordinary returns the entry as it is without a profile: its public name is the one that
// policy, records and metrics use.
func (e *Entry) Ordinary() *Entry {
	if e.ordinary != nil {
		return e.ordinary
	}
	return e
}
