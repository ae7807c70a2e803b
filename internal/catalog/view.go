package catalog

import (
	"slices"
	"strings"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/canonical"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// View is the part of a table that callers with the same rights see. It is immutable, except
// that it keeps encoded pages. Views with the same listings share them.
type View struct {
	*listings
	table    *Table
	rights   *policy.Rights
	policies [call.Kinds][]*policy.ItemPolicy // by index of the entry
}

// listings are the items in lists of a view.
type listings struct {
	allowed     [call.Kinds][]bool   // by index of the entry: it is visible
	listed      [call.Kinds][]*Entry // in the order of lists
	pages       [call.Kinds][]*page
	starts      [call.Kinds][]int         // index in listed of the first item of each part, and the length
	parts       []*Part                   // that the caller may know
	named       []bool                    // by index of the part: the caller may know it
	unavailable []Unavailable             // parts that are down
	lacking     [call.Kinds][]Unavailable // parts that are down or whose list of the kind failed
	fresh       freshness
	tools       []*Entry   // that can be called, also those that are not listed
	metaTools   int        // how many of them, the first ones, are own tools that serve the use of others
	indexing    sync.Mutex // held to make an index of tools

	instructions string
	extensions   wire.Raw
	capabilities capability
	undescribed  bool // one of unavailable is on its first attempt, and nothing is known of it
}

// newView makes a view. It takes the listings from existing, which returns those of another
// view with the same visible entries, or nil.
func newView(t *Table, rights *policy.Rights, others func(visible string) *listings) (v *View, visible string) {
	v = &View{table: t, rights: rights}
	var allowed [call.Kinds][]bool
	seen := make([]bool, len(t.parts))     // parts that the caller may know
	shown := make([]kindSet, len(t.parts)) // the kinds of their visible entries
	var key []byte
	for kind, entries := range t.entries {
		v.policies[kind] = make([]*policy.ItemPolicy, len(entries))
		allowed[kind] = make([]bool, len(entries))
		for i, e := range entries {
			if e.part == t.own {
				v.policies[kind][i], allowed[kind][i] = policy.Always(), true
				continue
			}
			j := v.entryPolicy(e)
			v.policies[kind][i] = j
			if allowed[kind][i] = j.Listed().Visible(); allowed[kind][i] {
				seen[e.part.index] = true
				shown[e.part.index] |= 1 << kind
			}
		}
		key = appendBits(key, allowed[kind])
	}
	for _, p := range t.Parts() {
		seen[p.index] = seen[p.index] || rights.MayAllow(p.Upstream(), p.leads())
	}
	capabilities := v.capabilitiesOf(seen, shown)
	key = append(appendBits(key, seen), byte(capabilities))
	if v.listings = others(string(key)); v.listings != nil {
		return v, string(key)
	}
	v.listings = &listings{allowed: allowed, named: seen, capabilities: capabilities}
	for _, p := range t.Parts() {
		if !seen[p.index] {
			continue
		}
		v.parts = append(v.parts, p)
		if d := p.source.Down; d != nil {
			v.unavailable = append(v.unavailable, p.unavailable(d))
			v.undescribed = v.undescribed || d.Starting && p.source.Revision == ""
		}
		for kind := range v.lacking {
			if d := p.missing(call.Kind(kind)); d != nil {
				v.lacking[kind] = append(v.lacking[kind], p.unavailable(d))
			}
		}
	}
	for kind, entries := range t.entries {
		v.list(call.Kind(kind), entries)
	}
	v.fresh = freshnessOf(v.parts)
	v.fresh.private = v.fresh.private || t.policy.TellsCallersApart()
	if text, ok := t.opts.Profile.Instructions(); ok {
		v.instructions = v.introduced(text)
	} else {
		v.instructions = v.introduced(mergeInstructions(v.parts))
	}
	v.extensions = mergeExtensions(v.parts)
	for kind := range v.pages {
		v.pages[kind] = v.paginate(call.Kind(kind))
	}
	return v, string(key)
}

// appendBits appends flags as bits.
func appendBits(b []byte, flags []bool) []byte {
	for i, f := range flags {
		if i%8 == 0 {
			b = append(b, 0)
		}
		if f {
			b[len(b)-1] |= 1 << (i % 8)
		}
	}
	return b
}

// entryPolicy returns the policy for an entry of the table, or of the one without a profile.
func (v *View) entryPolicy(e *Entry) *policy.ItemPolicy {
	it := e.policyItem()
	j := v.rights.ForItem(it)
	if e.provisional {
		it.Public, it.PreferredName = it.PreferredName, ""
		j = policy.Strictest(j, v.rights.ForItem(it))
	}
	return j
}

// PolicyFor returns the policy for an item of a part, listed or not. ordinary is its public
// name without a profile.
func (v *View) PolicyFor(kind call.Kind, p *Part, ordinary, native string) *policy.ItemPolicy {
	return v.TargetFor(kind, p, ordinary, native).Policy
}

// TargetFor returns the target of an item of a part, listed or not. ordinary is its public name
// without a profile. The target has no Entry if the caller may not see it.
func (v *View) TargetFor(kind call.Kind, p *Part, ordinary, native string) Target {
	t := Target{Part: p, Kind: kind, Public: ordinary, Native: native}
	if e := v.table.entryOf(kind, p, ordinary, native); e != nil {
		if t.Public, t.ordinary, t.Policy = e.Public, ordinary, v.policies[kind][e.index]; v.allowed[kind][e.index] {
			t.Entry = e
		}
		return t
	}
	if isURI(kind) {
		t.Policy = v.unlistedPolicy(p, ordinary, native, nil)
	} else {
		t.Policy = v.rights.ForItem(policy.Item{Kind: kind, Upstream: p.Upstream(), Public: ordinary, Native: native})
	}
	return t
}

// MayUse reports whether the caller may use an item of an upstream: one that is listed, or a
// resource that need not be. ordinary is its public name without a profile.
func (v *View) MayUse(kind call.Kind, upstream, ordinary, native string) bool {
	p := v.Part(upstream)
	if p == nil {
		return false
	}
	t := v.TargetFor(kind, p, ordinary, native)
	return t.Entry != nil || kind == call.Resource && t.Policy.Listed().Visible()
}

// entryOf returns the entry of a listed item by its public name without a profile, nil if it is
// not in the table.
func (t *Table) entryOf(kind call.Kind, p *Part, ordinary, native string) *Entry {
	for e := t.Ordinary().public[kind][ordinary]; e != nil; e = e.next {
		switch {
		case e.part.Upstream() != p.Upstream() || e.Native != native:
		case t.ordinary == nil:
			return e
		default:
			return t.byOrdinary[kind][e.index]
		}
	}
	return nil
}

// RefusalOf returns the decision because of which a name does not resolve: the one about the
// item with this name or about the unlisted URI, otherwise [policy.RuleUnknown]. t is what
// Resolve returned. The decision is for the audit and for operators, never for the caller.
func (v *View) RefusalOf(kind call.Kind, public string, t Target) policy.Decision {
	if e := v.table.public[kind][public]; e != nil {
		return v.policies[kind][e.index].Listed()
	}
	if t.Policy != nil {
		return t.Policy.Listed()
	}
	return policy.Decision{Effect: policy.Deny, Rule: policy.RuleUnknown}
}

// Restricts reports whether policy could refuse callers an item of a kind of the part,
// whether or not there is one.
func (v *View) Restricts(kind call.Kind, p *Part) bool {
	return !p.Own() && (v.table.opts.Profile.ByDefinition(kind) || v.rights.MayRefuse(kind, p.Upstream(), p.publicLeads[kind]))
}

// list finds the entries of a kind that the caller may use, and those that lists show.
func (v *View) list(kind call.Kind, entries []*Entry) {
	usable := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		if v.allowed[kind][e.index] && e.part.source.Down == nil && v.serving(v.table.public[kind][e.Public]) == e {
			usable = append(usable, e)
		}
	}
	listed := usable
	if kind == call.Tool {
		v.tools = usable
		for v.metaTools < len(usable) && usable[v.metaTools].meta {
			v.metaTools++
		}
		if unlisted := func(e *Entry) bool { return e.unlisted }; slices.ContainsFunc(usable, unlisted) {
			listed = slices.DeleteFunc(slices.Clone(usable), unlisted)
		}
	}
	starts := make([]int, 0, len(v.table.parts)+1)
	for i, e := range listed {
		for len(starts) <= e.part.index {
			starts = append(starts, i)
		}
	}
	for len(starts) <= len(v.table.parts) {
		starts = append(starts, len(listed))
	}
	v.listed[kind], v.starts[kind] = listed, starts
}

// serving returns the entry that serves a public name. Several entries may share a web
// address: the first one whose upstream is up serves it, otherwise the first. It returns
// nil if the caller may use none of them.
func (v *View) serving(head *Entry) *Entry {
	var first *Entry
	for e := head; e != nil; e = e.next {
		if !v.allowed[e.Kind][e.index] {
			continue
		}
		if e.part.source.Down == nil {
			return e
		}
		if first == nil {
			first = e
		}
	}
	return first
}

// Resolve returns the target of a public name or URI. It returns false both for a name that
// does not exist and for one that the caller may not use. The Target of an unlisted URI that
// policy refuses has a Policy and no Part.
//
// A listed URI leads to the upstream that lists it. Another URI leads to the upstream in its
// prefix, to the upstream whose template matches it, or to the only upstream without a
// prefix. A Template that is not listed is resolved as a URI, because completion refers to
// both in the same way. Listed names resolve without allocating.
func (v *View) Resolve(kind call.Kind, public string) (Target, bool) {
	if e := v.serving(v.table.public[kind][public]); e != nil {
		return Target{Part: e.part, Kind: kind, Public: public, Native: e.Native, Entry: e, Policy: v.policies[kind][e.index]}, true
	}
	switch kind {
	case call.Template:
		return v.Resolve(call.Resource, public)
	case call.Resource:
		return v.unlisted(public)
	default:
		return Target{}, false
	}
}

// unlisted resolves an unlisted URI. If policy refuses it at several parts, it returns the
// first refusal.
func (v *View) unlisted(public string) (Target, bool) {
	t := v.table
	if t.ownsURI(public) {
		return Target{Part: t.own, Kind: call.Resource, Public: public, Native: public, Policy: policy.Always()}, true
	}
	var refused Target
	refuse := func(target Target, mayTell bool) {
		if refused.Policy == nil {
			refused = target
			refused.misspelledAt = nil
		}
		if refused.misspelledAt == nil && mayTell {
			refused.misspelledAt, refused.Native = target.misspelledAt, target.Native
		}
	}
	if p := t.owner(public); p != nil {
		if native, ok := p.naming.NativeURI(public); ok {
			target, ok := v.target(p, public, native)
			if ok {
				return target, true
			}
			refuse(target, true)
		} else if native, ok := strings.CutPrefix(public, p.naming.Prefix()+"+"); ok {
			if target, _ := v.target(p, public, native); target.misspelledAt != nil {
				refuse(target, true)
			}
		}
		if v.named[p.index] {
			return refused, false
		}
		// If the caller may not know the upstream, the URI resolves as if it did not exist.
	}
	for p := range matching(t.patterns, public) {
		native, ok := p.naming.NativeURI(public)
		if !ok {
			continue
		}
		target, ok := v.target(p.entry.part, public, native)
		if ok {
			return target, true
		}
		refuse(target, v.allowed[call.Template][p.entry.index])
	}
	if t.open != nil {
		target, ok := v.target(t.open, public, public)
		if ok {
			return target, true
		}
		refuse(target, true)
	}
	return refused, false
}

// owner returns the part with a prefix that a public URI names, nil if it names none that the
// caller may know.
func (v *View) owner(public string) *Part {
	if p := v.table.owner(public); p != nil && v.named[p.index] {
		return p
	}
	return nil
}

// target returns the target of an unlisted URI, if the caller may use it.
func (v *View) target(p *Part, public, native string) (Target, bool) {
	if !p.hasResources() {
		return Target{}, false
	}
	t := Target{Kind: call.Resource, Public: public, Native: native, Policy: v.unlistedPolicy(p, public, native, nil)}
	if d := t.Policy.Listed(); !d.Visible() {
		if d.Rule == policy.RuleURI && v.named[p.index] {
			t.misspelledAt = p
		}
		return t, false
	}
	t.Part = p
	return t, true
}

// unlistedPolicy returns the policy for an unlisted resource. raw is its description by the
// upstream, or nil.
func (v *View) unlistedPolicy(p *Part, public, native string, raw wire.Raw) *policy.ItemPolicy {
	it := unlistedItem(p, public, native)
	it.Raw = raw
	for e := v.table.Ordinary().public[call.Resource][public]; e != nil && it.PreferredName == ""; e = e.next {
		if e.part.Upstream() == p.Upstream() && e.Native == native { // a template may lead to a listed item that is denied
			it.PreferredName = e.preferredName
		}
	}
	j := v.rights.ForItem(it)
	for _, e := range v.table.sameURI(p, native) {
		j = policy.Strictest(j, v.entryPolicy(e))
	}
	return j
}

// unlistedItem returns an unlisted resource for policy.
func unlistedItem(p *Part, public, native string) policy.Item {
	it := policy.Item{Kind: call.Resource, Upstream: p.Upstream(), Public: public, Native: native, Leads: p.publicLeads[call.Resource]}
	if !p.naming.IsPublicURI(public, native) {
		it.PreferredName = p.naming.PublicURI(native) // expansions of a template that clashes have another prefix
		it.Noncanonical = !p.naming.Fallback().IsPublicURI(public, native)
	}
	it.Noncanonical = it.Noncanonical || canonical.Violation(native) != ""
	return it
}

// Listed returns the description of a listed resource, nil if the caller sees none with this
// URI. It implements conform.Listed.
func (v *View) Listed(uri string) wire.Raw {
	if e := v.serving(v.table.public[call.Resource][uri]); e != nil {
		return e.Raw
	}
	return nil
}

// Reaches reports whether the caller may be shown an item of an upstream, whatever it lists:
// it may list other items to this principal.
func (v *View) Reaches(upstream string) bool {
	p, ok := v.table.Part(upstream)
	return ok && (v.named[p.index] || v.rights.MayAllow(upstream, p.leadsOf(true)))
}

// mergeExtensions returns the union of the extensions that parts declare and the
// gateway relays.
func mergeExtensions(parts []*Part) wire.Raw {
	seen := make(map[string]bool)
	out := wire.Raw{'{'}
	for _, p := range parts {
		for m := range wire.ValueOf(p.source.Capabilities).Get("extensions").Members() {
			if name := m.Key.Str(); !seen[name] && wire.RelaysExtension(name) {
				if len(seen) > 0 {
					out = append(out, ',')
				}
				seen[name] = true
				out = append(out, m.Key.Raw()...)
				out = append(out, ':')
				out = append(out, m.Value.Raw()...)
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return append(out, '}')
}

// Extensions returns the union of the extensions that upstreams declare and the
// gateway relays, see [wire.RelaysExtension], nil
// when there are none. Of several upstreams the settings of the first count.
// Upstreams that are down declare what they did when they were last seen.
func (v *View) Extensions() wire.Raw { return v.extensions }

// Instructions returns the merged instructions of the upstreams, "" for none.
func (v *View) Instructions() string { return v.instructions }
