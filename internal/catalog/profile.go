package catalog

import (
	"fmt"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
)

// ForProfile returns the table of a profile. The table must be one of no profile, since its
// names are the ordinary ones. Both tables share the bytes of items that look the same in both.
// The findings of the result are about the names of the gateway's own items alone.
func (t *Table) ForProfile(p *profile.Profile) *Table {
	out := &Table{
		opts: t.opts, policy: p.Policy(t.opts.Policy), ordinary: t,
		byName: make(map[string]*Part), byPrefix: make(map[string]*Part),
	}
	out.opts.Profile = p
	out.addOwn(p.Own())
	parts := make([]*Part, len(t.parts)) // by index in t
	for i, of := range t.parts {
		if !p.HasUpstream(of.Upstream()) {
			continue
		}
		parts[i] = out.addPart(of)
		out.byName[of.Upstream()] = parts[i]
		if prefix := of.naming.Prefix(); prefix != "" {
			out.byPrefix[prefix] = parts[i]
		}
		// A URI leads to the only upstream without a prefix if it does so without the profile:
		// a name never leads to different upstreams.
		if of == t.open {
			out.open = parts[i]
		}
	}
	for kind := range call.Kind(call.Kinds) {
		out.byOrdinary[kind] = make([]*Entry, len(t.entries[kind]))
		first := len(out.entries[kind])
		for _, e := range t.entries[kind] {
			if part := parts[e.part.index]; part != nil && p.Selects(e.policyItem()) {
				out.addEntry(e, part)
			}
		}
		out.name(kind, first)
	}
	for _, pattern := range t.patterns {
		if pattern.entry = out.byOrdinary[call.Template][pattern.entry.index]; pattern.entry != nil {
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

// addPart adds a part of the ordinary table.
func (t *Table) addPart(of *Part) *Part {
	p := *of
	p.index = len(t.parts)
	t.parts = append(t.parts, &p)
	return &p
}

// addEntry adds an entry of the ordinary table.
func (t *Table) addEntry(of *Entry, part *Part) {
	e := *of
	e.part, e.next, e.repeated, e.ordinary = part, nil, false, of
	e.unlisted = e.Kind == call.Tool && !t.opts.Profile.Lists(of.policyItem())
	t.entries[e.Kind] = append(t.entries[e.Kind], &e)
}

// name gives the entries of a kind their names. The entries from first on are those of
// upstreams; the gateway's own win every name.
func (t *Table) name(kind call.Kind, first int) {
	entries := t.entries[kind]
	var rest []*Entry
	short := t.shortNames(kind, entries[first:])
	for i, e := range entries[first:] {
		name := e.Public
		if short != nil && short[i] != "" && t.public[kind][short[i]] == nil {
			name = short[i]
		}
		if !t.show(e, name, !strings.Contains(name, e.Native)) {
			rest = append(rest, e)
		}
	}
	for _, e := range rest {
		t.showFallback(e)
	}
	t.entries[kind] = entries[:0]
	for _, e := range entries {
		if e.Public == "" {
			continue
		}
		e.index = len(t.entries[kind])
		t.entries[kind] = append(t.entries[kind], e)
		if e.ordinary != nil { // none of the gateway's own
			t.byOrdinary[kind][e.ordinary.index] = e
		}
	}
}

// shortNames returns for each entry the name without the prefix of its upstream, "" if another
// entry has or would have that name; nil if names are not shortened. A name that two entries
// would have is given to neither, so that it never leads to another upstream. Therefore an
// upstream that was never listed reserves no names.
func (t *Table) shortNames(kind call.Kind, entries []*Entry) []string {
	if isURI(kind) || !t.opts.Profile.ShortNames() {
		return nil
	}
	short := make([]string, len(entries))
	claims := make(map[string]int, 2*len(entries))
	for i, e := range entries {
		short[i], _ = namespace.Own().Name(e.alias())
		claims[e.Public]++
		if short[i] != e.Public {
			claims[short[i]]++
		}
	}
	for i := range short {
		if claims[short[i]] > 1 {
			short[i] = ""
		}
	}
	return short
}

// alias returns the name of a tool or prompt at its upstream, or the one that an override gives it.
func (e *Entry) alias() string {
	if o := e.part.Rules().override(e.Kind, e.Native); o.Name != "" {
		return o.Name
	}
	return e.Native
}

// show publishes an entry of an upstream under a name, as the profile shows it. mark puts the
// native name beside another than the ordinary name. It returns false if the name is taken.
func (t *Table) show(e *Entry, name string, mark bool) bool {
	p := t.opts.Profile
	before := t.public[e.Kind][name]
	switch {
	case before == nil:
		t.public[e.Kind][name] = e
	case before.part == t.own || !e.web():
		return false
	default:
		for before.next != nil {
			before = before.next
		}
		before.next, e.repeated = e, true
	}
	raw := e.Raw
	if e.Public = name; name != e.ordinary.Public {
		raw = namespace.Rename(raw, name, e.Native, mark)
	}
	e.setRaw(p.Trim(raw))
	return true
}

// showFallback publishes an entry of an upstream whose name the gateway itself has. A URI
// cannot be published in another way.
func (t *Table) showFallback(e *Entry) {
	taken := e.Public
	e.Public = ""
	if !isURI(e.Kind) {
		naming := e.part.naming.Fallback()
		plain, _ := naming.Name(e.alias())
		for _, name := range []string{plain, naming.HashedName(e.alias()), naming.HashedName(e.Native)} {
			if t.show(e, name, true) {
				break
			}
		}
	}
	t.findings = append(t.findings, Finding{
		Issue: Clash, Kind: e.Kind, Upstream: e.part.Upstream(), Native: e.Native, Public: e.Public,
		Reason: fmt.Sprintf("the gateway itself has the name %q", taken),
	})
}

// web reports whether the entry is a web address, which several upstreams may list.
func (e *Entry) web() bool { return isURI(e.Kind) && namespace.IsWeb(e.Native) }

// policyItem returns the entry for policy, which knows it by its ordinary name and definition.
func (e *Entry) policyItem() policy.Item {
	o := e.Ordinary()
	return policy.Item{
		Kind: o.Kind, Upstream: o.part.Upstream(), Public: o.Public, PreferredName: o.preferredName, Native: o.Native, Raw: o.Raw,
	}
}

// Ordinary returns the entry as it is without a profile: policy, records and metrics use its
// public name.
func (e *Entry) Ordinary() *Entry {
	if e.ordinary != nil {
		return e.ordinary
	}
	return e
}

// OrdinaryName returns the public name that the item has without a profile.
func (t *Target) OrdinaryName() string {
	switch {
	case t.Entry != nil && t.Entry.ordinary != nil:
		return t.Entry.ordinary.Public
	case t.ordinary != "":
		return t.ordinary
	}
	return t.Public
}

// OrdinaryName returns the public name that an item with this name in the table has without a
// profile, whether or not the caller sees it, and another name as it is.
func (v *View) OrdinaryName(kind call.Kind, public string) string {
	if e := v.table.public[kind][public]; e != nil {
		return e.Ordinary().Public
	}
	return public
}
