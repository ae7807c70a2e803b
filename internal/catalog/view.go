package catalog

import (
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// View is what one set of rights sees of a table. It is immutable but for the
// pages that it keeps once they are encoded.
type View struct {
	table       *Table
	who         *call.Principal // any of those who have these rights
	allowed     [call.Kinds][]bool
	listed      [call.Kinds][]*Entry // what lists show, in their order
	pages       [call.Kinds][]*page
	starts      [call.Kinds][]int // where the items of each part begin in listed; one more than parts
	parts       []*Part           // that may be named
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
}

// Unavailable is an upstream that a list lacks.
type Unavailable struct {
	Upstream string
	Since    time.Time
	Reason   string
	Starting bool // its first attempt has not ended
}

func newView(t *Table, who *call.Principal) *View {
	v := &View{table: t, who: who}
	for _, p := range t.parts {
		if !t.opts.Policy.MaySee(who, p.Upstream()) {
			continue
		}
		v.parts = append(v.parts, p)
		if d := p.source.Down; d != nil {
			v.unavailable = append(v.unavailable, Unavailable{p.Upstream(), d.Since, d.Reason, d.Starting})
		}
	}
	for kind, entries := range t.entries {
		v.allowed[kind] = make([]bool, len(entries))
		for i, e := range entries {
			v.allowed[kind][i] = t.decide(who, e.Kind, e.part, e.Public, e.Native)
		}
		v.list(call.Kind(kind), entries)
	}
	v.fresh = freshnessOf(v.parts)
	v.instructions = mergeInstructions(v.parts)
	v.extensions = mergeExtensions(v.parts)
	for kind := range v.pages {
		v.pages[kind] = v.paginate(call.Kind(kind))
	}
	return v
}

// list finds out which entries of a kind are listed.
func (v *View) list(kind call.Kind, entries []*Entry) {
	starts := make([]int, 0, len(v.table.parts)+1)
	listed := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		for len(starts) <= e.part.index {
			starts = append(starts, len(listed))
		}
		if v.allowed[kind][e.index] && e.part.source.Down == nil && v.pick(v.table.public[kind][e.Public]) == e {
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
func (v *View) pick(head *Entry) *Entry {
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
// that nobody has and for one that may not be used, in the same way.
//
// A URI is found by who lists it, else by its prefix, else by the template that
// it matches, else it goes to the only upstream without a prefix. A Template
// that nobody lists is taken for a URI: completion refers to both in one way.
// Listed names resolve without allocating.
func (v *View) Resolve(kind call.Kind, public string) (Target, bool) {
	if e := v.pick(v.table.public[kind][public]); e != nil {
		return Target{e.part, kind, public, e.Native, e}, true
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

// unlisted resolves a URI that no list has.
func (v *View) unlisted(public string) (Target, bool) {
	t := v.table
	if p := t.owner(public); p != nil {
		if native, ok := p.space.NativeURI(public); ok {
			return v.target(p, public, native)
		}
		return Target{}, false
	}
	for p := range t.matching(public) {
		native, ok := p.space.NativeURI(public)
		if !ok {
			continue
		}
		if target, ok := v.target(p.entry.part, public, native); ok {
			return target, true
		}
	}
	if t.open != nil {
		return v.target(t.open, public, public)
	}
	return Target{}, false
}

// target returns the target of an unlisted URI if it may be used.
func (v *View) target(p *Part, public, native string) (Target, bool) {
	if !p.hasResources() || !v.table.decide(v.who, call.Resource, p, public, native) {
		return Target{}, false
	}
	return Target{p, call.Resource, public, native, nil}, true
}

// Unavailable returns the upstreams that are down, of those that may be named.
// The caller must not change it.
func (v *View) Unavailable() []Unavailable { return v.unavailable }

// Suspects returns the upstreams that a name which did not resolve may belong
// to: they are down, and what they offer is not known. Whoever gets none can
// tell the client that the name is unknown.
func (v *View) Suspects(kind call.Kind, public string) []Unavailable {
	var out []Unavailable
	for _, p := range v.parts {
		d := p.source.Down
		if d == nil || !p.empty() {
			continue
		}
		native, ok := strings.CutPrefix(public, p.space.Lead())
		if isURI(kind) {
			native, ok = p.space.NativeURI(public)
		}
		if ok && v.table.decide(v.who, kind, p, public, native) && !v.elsewhere(kind, p, public) {
			out = append(out, Unavailable{p.Upstream(), d.Since, d.Reason, d.Starting})
		}
	}
	return out
}

// elsewhere reports whether a URI belongs to another part by its prefix, so
// that one without a prefix cannot have it.
func (v *View) elsewhere(kind call.Kind, p *Part, public string) bool {
	if !isURI(kind) {
		return false
	}
	owner := v.table.owner(public)
	return owner != nil && owner != p
}

// mergeExtensions returns the union of what the parts declare as extensions.
func mergeExtensions(parts []*Part) wire.Raw {
	seen := make(map[string]bool)
	out := wire.Raw{'{'}
	for _, p := range parts {
		for m := range wire.ValueOf(p.source.Capabilities).Get("extensions").Members() {
			if name := m.Key.Str(); !seen[name] {
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

// Extensions returns the union of the extensions that upstreams declare, nil
// when there are none. Of several upstreams the settings of the first count.
// Upstreams that are down declare what they did when they were last seen.
func (v *View) Extensions() wire.Raw { return v.extensions }

// Instructions returns what the upstreams say about themselves, "" when they
// say nothing.
func (v *View) Instructions() string { return v.instructions }
