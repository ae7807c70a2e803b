package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/canonical"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// View is what one set of rights sees of a table. It is immutable but for the
// pages that it keeps once they are encoded. What lists show it shares with the
// views of other rights to whom they show the same.
type View struct {
	*listings
	table    *Table
	rights   *policy.Rights
	policies [call.Kinds][]*policy.ItemPolicy // of the entries
}

// shown is what lists show.
type listings struct {
	allowed     [call.Kinds][]bool   // which entries are visible
	listed      [call.Kinds][]*Entry // what lists show, in their order
	pages       [call.Kinds][]*page
	starts      [call.Kinds][]int // where the items of each part begin in listed; one more than parts
	parts       []*Part           // that may be named
	named       []bool            // which of all parts these are
	unavailable []Unavailable
	fresh       freshness

	instructions string
	extensions   wire.Raw
}

// Target is where a public name leads to.
type Target struct {
	Part   *Part
	Kind   call.Kind // Resource for a URI, also where a Template was asked for and the name is none
	Public string
	Native string
	Entry  *Entry // nil for a URI that no list has
	// Policy is what policy has to say about it.
	Policy *policy.ItemPolicy
	// misspelledAt is the part that a URI would lead to if it were canonical. It is set
	// only for a URI that does not resolve, and only if the caller may know the part.
	misspelledAt *Part
	// Unconfirmed says that it is not known whether there is such an item, nor what the
	// configuration makes of it: see [View.ResolveUnavailable].
	Unconfirmed bool
}

// Unavailable is an upstream that a list lacks.
type Unavailable struct {
	Upstream string
	Since    time.Time
	Reason   string
	Starting bool // its first attempt has not ended
}

// newView judges all entries. What lists show is taken from others, by what is
// visible, where they have it.
func newView(t *Table, rights *policy.Rights, others func(visible string) *listings) (v *View, visible string) {
	v = &View{table: t, rights: rights}
	var allowed [call.Kinds][]bool
	seen := make([]bool, len(t.parts)) // parts with a visible entry
	var key []byte
	for kind, entries := range t.entries {
		v.policies[kind] = make([]*policy.ItemPolicy, len(entries))
		allowed[kind] = make([]bool, len(entries))
		for i, e := range entries {
			j := v.itemPolicy(e.Kind, e.part, e.Public, e.preferredName, e.Native, e.Raw)
			if e.provisional {
				j = policy.Strictest(j, v.itemPolicy(e.Kind, e.part, e.preferredName, "", e.Native, e.Raw))
			}
			v.policies[kind][i] = j
			if allowed[kind][i] = j.Listed().Visible(); allowed[kind][i] {
				seen[e.part.index] = true
			}
		}
		key = appendBits(key, allowed[kind])
	}
	for _, p := range t.parts {
		seen[p.index] = seen[p.index] || rights.MayAllow(p.Upstream(), p.leads())
	}
	key = appendBits(key, seen)
	if v.listings = others(string(key)); v.listings != nil {
		return v, string(key)
	}
	v.listings = &listings{allowed: allowed, named: seen}
	for _, p := range t.parts {
		if !seen[p.index] {
			continue
		}
		v.parts = append(v.parts, p)
		if d := p.source.Down; d != nil {
			v.unavailable = append(v.unavailable, Unavailable{p.Upstream(), d.Since, d.Reason, d.Starting})
		}
	}
	for kind, entries := range t.entries {
		v.list(call.Kind(kind), entries)
	}
	v.fresh = freshnessOf(v.parts)
	v.fresh.private = v.fresh.private || t.opts.Policy.TellsCallersApart()
	v.instructions = mergeInstructions(v.parts)
	v.extensions = mergeExtensions(v.parts)
	for kind := range v.pages {
		v.pages[kind] = v.paginate(call.Kind(kind))
	}
	return v, string(key)
}

// appendBits appends flags as text.
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

// judge asks policy about a listed item of a part. own is the name that it would have if
// no other had it, "" where it has that.
func (v *View) itemPolicy(kind call.Kind, p *Part, public, own, native string, raw wire.Raw) *policy.ItemPolicy {
	return v.rights.ForItem(policy.Item{Kind: kind, Upstream: p.Upstream(), Public: public, PreferredName: own, Native: native, Raw: raw})
}

// PolicyFor returns what policy has to say about an item of a part, listed or not.
func (v *View) PolicyFor(kind call.Kind, p *Part, public, native string) *policy.ItemPolicy {
	if j := v.listedPolicy(kind, p, public, native); j != nil {
		return j
	}
	if isURI(kind) {
		return v.unlistedPolicy(p, public, native, nil)
	}
	return v.itemPolicy(kind, p, public, "", native, nil)
}

// judgedEntry returns what policy has to say about a listed item, nil if it is not listed.
func (v *View) listedPolicy(kind call.Kind, p *Part, public, native string) *policy.ItemPolicy {
	for e := v.table.public[kind][public]; e != nil; e = e.next {
		if e.part == p && e.Native == native {
			return v.policies[kind][e.index]
		}
	}
	return nil
}

// RefusalOf returns why a name does not resolve: what was decided about the item
// that has it, or about the URI that no list has, and that there is none where
// nobody does. t is what Resolve returned. It is for those who may know what exists,
// never for the caller.
func (v *View) RefusalOf(kind call.Kind, public string, t Target) policy.Decision {
	if e := v.table.public[kind][public]; e != nil {
		return v.policies[kind][e.index].Listed()
	}
	if t.Policy != nil {
		return t.Policy.Listed()
	}
	return policy.Decision{Effect: policy.Deny, Rule: policy.RuleUnknown}
}

// Restricts reports whether callers of the view may be refused some item of a kind
// of the part, whether or not there is one.
func (v *View) Restricts(kind call.Kind, p *Part) bool { return v.rights.MayRefuse(kind, p.Upstream()) }

// list finds out which entries of a kind are listed.
func (v *View) list(kind call.Kind, entries []*Entry) {
	starts := make([]int, 0, len(v.table.parts)+1)
	listed := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		for len(starts) <= e.part.index {
			starts = append(starts, len(listed))
		}
		if v.allowed[kind][e.index] && e.part.source.Down == nil && v.serving(v.table.public[kind][e.Public]) == e {
			listed = append(listed, e)
		}
	}
	for len(starts) <= len(v.table.parts) {
		starts = append(starts, len(listed))
	}
	v.listed[kind], v.starts[kind] = listed, starts
}

// pick returns the entry that serves a public name: of several that share a
// web address the first whose upstream is not down, else the first. It is nil
// when none may be used.
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

// Resolve returns where a public name or URI leads to. It is false for a name
// that nobody has and for one that may not be used, in the same way. The
// Target of a URI that policy refuses and no list has then has a judgement and no part.
//
// A URI is found by who lists it, else by its prefix, else by the template that
// it matches, else it goes to the only upstream without a prefix. A Template
// that nobody lists is taken for a URI: completion refers to both in one way.
// Listed names resolve without allocating.
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

// unlisted resolves a URI that no list has. If policy refuses it at several parts, the
// first refusal is what is returned.
func (v *View) unlisted(public string) (Target, bool) {
	t := v.table
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
		// Where it may not be named it is as if there were no such upstream.
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

// owner returns the part with a prefix that a public URI names, nil when it names
// none that may be named.
func (v *View) owner(public string) *Part {
	if p := v.table.owner(public); p != nil && v.named[p.index] {
		return p
	}
	return nil
}

// target returns the target of an unlisted URI if it may be used.
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

// judgeUnlisted asks policy about a resource that no list of the table has; raw is
// what is known of it, or nil.
func (v *View) unlistedPolicy(p *Part, public, native string, raw wire.Raw) *policy.ItemPolicy {
	it := unlistedItem(p, public, native)
	it.Raw = raw
	j := v.rights.ForItem(it)
	for _, e := range v.table.sameURI(p, native) {
		j = policy.Strictest(j, v.policies[e.Kind][e.index])
	}
	return j
}

// unlistedItem returns what policy judges an unlisted resource by.
func unlistedItem(p *Part, public, native string) policy.Item {
	it := policy.Item{Kind: call.Resource, Upstream: p.Upstream(), Public: public, Native: native}
	if !p.naming.IsPublicURI(public, native) {
		it.PreferredName = p.naming.PublicURI(native) // a template that clashes is published under another prefix
		it.Noncanonical = !p.naming.Fallback().IsPublicURI(public, native)
	}
	it.Noncanonical = it.Noncanonical || canonical.Violation(native) != ""
	return it
}

// PolicyItem returns what policy judges the target by.
func (t Target) PolicyItem() policy.Item {
	if t.Entry != nil {
		return policy.Item{Kind: t.Kind, Upstream: t.Part.Upstream(), Public: t.Public, PreferredName: t.Entry.preferredName, Native: t.Native, Raw: t.Entry.Raw}
	}
	return unlistedItem(t.Part, t.Public, t.Native)
}

// SpellingError returns the error for a URI that policy refuses because it is neither
// listed nor canonical, nil for another target. It says the same whether or not there is
// such a resource.
func (t Target) SpellingError() *wire.Error {
	p := t.misspelledAt
	if p == nil {
		return nil
	}
	why := canonical.Violation(t.Native)
	if why == "" {
		why = "its prefix is not the usual one"
	}
	advice := "it has no canonical spelling"
	if native, ok := canonical.URI(t.Native); ok {
		advice = fmt.Sprintf("use %q", p.naming.PublicURI(native))
	}
	return wire.Errorf(wire.CodeInvalidParams, "the URI of an unlisted resource must be canonical, and this one is not: %s; %s", why, advice)
}

// ResultChecker returns the checker for results of the target: the answer of its
// upstream to a request of the method, under public names. rev is the revision
// that the upstream answered in, "" for the one that it is known to speak.
func (v *View) ResultChecker(t Target, method string, rev wire.Revision) conform.ResultChecker {
	s := conform.ResultChecker{
		Mode: t.Part.Rules().Conformance, Revision: cmp.Or(rev, t.Part.Revision()), Method: method, Resources: v, Space: t.Part.Naming(), Asked: t.Asked(),
	}
	if t.Entry != nil {
		s.Output = t.Entry.Output
	}
	return s
}

// Asked is what results are rewritten against: contents of the requested
// resource carry the URI as the client asked for it.
func (t Target) Asked() namespace.Asked {
	if t.Kind != call.Resource {
		return namespace.Asked{}
	}
	return namespace.Asked{Native: t.Native, Public: t.Public}
}

// Listed returns what lists say of a resource, nil when none has it that may be
// seen. It implements conform.Listed.
func (v *View) Listed(uri string) wire.Raw {
	if e := v.serving(v.table.public[call.Resource][uri]); e != nil {
		return e.Raw
	}
	return nil
}

// Unavailable returns the upstreams that are down, of those that may be named.
// The caller must not change it.
func (v *View) Unavailable() []Unavailable { return v.unavailable }

// Starting reports whether an upstream that may be named is on its first attempt.
func (v *View) Starting() bool {
	return slices.ContainsFunc(v.unavailable, func(u Unavailable) bool { return u.Starting })
}

// Reaches reports whether something of an upstream may be shown, whatever it lists: it
// may list other things to one principal than to others.
func (v *View) Reaches(upstream string) bool {
	p, ok := v.table.Part(upstream)
	return ok && (v.named[p.index] || v.rights.MayAllow(upstream, p.leadsOf(true)))
}

// UnavailableFor returns the upstreams that a name which did not resolve may belong
// to: they are down, and what they offer is not known. Whoever gets none can
// tell the client that the name is unknown.
func (v *View) UnavailableFor(kind call.Kind, public string) []Unavailable {
	var out []Unavailable
	for _, p := range v.parts {
		if _, ok := v.presume(kind, public, p); ok {
			d := p.source.Down
			out = append(out, Unavailable{p.Upstream(), d.Since, d.Reason, d.Starting})
		}
	}
	return out
}

// ResolveUnavailable returns where a name leads if it belongs to an upstream that is among the
// suspects. It is false for others. What the configuration makes of the item is not in
// it: that may be published under another name, hidden, or held. So it is for asking
// the caller something, not for calls.
func (v *View) ResolveUnavailable(kind call.Kind, public, upstream string) (Target, bool) {
	p := v.Part(upstream)
	if p == nil {
		return Target{}, false
	}
	return v.presume(kind, public, p)
}

func (v *View) presume(kind call.Kind, public string, p *Part) (Target, bool) {
	if p.source.Down == nil || !p.empty() {
		return Target{}, false
	}
	native, ok := strings.CutPrefix(public, p.naming.NamePrefix())
	if isURI(kind) {
		native, ok = p.naming.NativeURI(public)
	}
	if !ok {
		return Target{}, false
	}
	j := v.itemPolicy(kind, p, public, "", native, nil)
	if !j.Listed().Visible() || v.elsewhere(kind, p, public) {
		return Target{}, false
	}
	return Target{Part: p, Kind: kind, Public: public, Native: native, Policy: j, Unconfirmed: true}, true
}

// elsewhere reports whether a URI belongs to another part by its prefix, so
// that one without a prefix cannot have it.
func (v *View) elsewhere(kind call.Kind, p *Part, public string) bool {
	if !isURI(kind) {
		return false
	}
	owner := v.owner(public)
	return owner != nil && owner != p
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

// Instructions returns what the upstreams say about themselves, "" when they
// say nothing.
func (v *View) Instructions() string { return v.instructions }
