package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// builder fills a table that nobody else sees yet.
type builder struct {
	*Table
	drafts  [call.Kinds][]*draft
	renamed map[*Part]map[string]string // native URIs that clash → public
	budgets map[*Part]*toolschema.Budget
}

// draft is an item on its way to an entry.
type draft struct {
	*Entry
	raw         wire.Raw          // as the upstream sent it, or mended
	alias       string            // stands for the native name in the public one
	naming      *namespace.Naming // the naming that the public name is of
	marked      bool              // the public name does not show the native one
	placed      bool              // the item has a public name
	mayBelongTo *Part             // that may turn out to have the name
	reservedFor *Part             // for whose clashing items such names are kept
}

// publish gives the items of one kind public names.
func (b *builder) publish(kind call.Kind) {
	drafts := b.read(kind)
	b.public[kind] = make(map[string]*Entry, len(drafts))
	for _, d := range drafts {
		if d.web() {
			b.publishWebAddress(d)
		}
	}
	// Items that keep their names go before those of the same upstream that
	// are renamed.
	for _, renamed := range []bool{false, true} {
		for _, d := range drafts {
			if !d.web() && d.naming.Prefix() != "" && d.renamed() == renamed && !b.claim(d, d.name()) {
				b.publishFallback(d)
			}
		}
	}
	// Upstreams without a prefix get what is left. Of one upstream those items
	// go first that keep their names. What may yet turn out to be the name of an
	// upstream before them they do not get: it would lead to one upstream now and
	// to another later.
	for start, end := 0, 0; start < len(drafts); start = end {
		for end = start; end < len(drafts) && drafts[end].part == drafts[start].part; end++ {
		}
		var clashing, early []*draft
		for _, renamed := range []bool{false, true} {
			for _, d := range drafts[start:end] {
				if d.placed || d.web() || d.naming.Prefix() != "" || d.renamed() != renamed {
					continue
				}
				name := d.name()
				if d.reservedFor = b.reservedFor(kind, name); d.reservedFor != nil && d.reservedFor != d.part {
					clashing = append(clashing, d)
					continue
				}
				if p := b.mayBelong(d, name); p != nil && b.public[kind][name] == nil {
					d.provisional, d.mayBelongTo = true, p
					early = append(early, d)
					continue
				}
				if isURI(kind) && b.owner(name) != nil || !b.claim(d, name) {
					clashing = append(clashing, d)
				}
			}
		}
		for _, d := range append(clashing, early...) {
			b.publishFallback(d)
		}
	}
	b.drafts[kind] = slices.DeleteFunc(drafts, func(d *draft) bool { return !d.placed })
}

// keeps returns the part without a prefix whose items stand under such a name where
// they clash, nil if there is none. Whether any does depends on what others list, so
// the name is never another part's.
func (b *builder) reservedFor(kind call.Kind, public string) *Part {
	owner, ok := namespace.OwnerOf(public)
	for _, p := range b.parts {
		switch {
		case p.naming.Prefix() != "":
		case !isURI(kind) && strings.HasPrefix(public, p.naming.Fallback().NamePrefix()), isURI(kind) && ok && owner.Name == p.Upstream():
			return p
		}
	}
	return nil
}

// mayBelong returns a part that goes before that of an item of an upstream without a
// prefix, and may turn out to list the name; nil if there is none.
func (b *builder) mayBelong(d *draft, public string) *Part {
	for _, p := range b.parts {
		switch lead := p.naming.NamePrefix(); {
		case !p.source.NeverListed || p == d.part || d.reservedFor == d.part:
		case lead == "" && p.index < d.part.index, lead != "" && !isURI(d.Kind) && strings.HasPrefix(public, lead):
			return p
		}
	}
	return nil
}

// read returns the items of one kind that can be published, in the order of
// lists.
func (b *builder) read(kind call.Kind) []*draft {
	var drafts []*draft
	for _, p := range b.parts {
		items := p.source.Items[kind]
		seen := make(map[string]bool, len(items))
		drafts = slices.Grow(drafts, len(items))
		for i, raw := range items {
			d := &draft{Entry: &Entry{Kind: kind, part: p}, raw: raw, naming: p.source.Naming}
			if b.check(d, seen) && !b.held(d, i, seen) && b.first(d, seen) {
				d.override()
				drafts = append(drafts, d)
			}
		}
		b.unmatched(p, kind, seen)
	}
	return drafts
}

// check holds an item against the specification, as its upstream's rules say.
// It is false for one that cannot be published, and for one that is hidden,
// whose faults nobody meets.
func (b *builder) check(d *draft, seen map[string]bool) bool {
	rules := d.part.Rules()
	lists := conform.ItemChecker{
		Mode: rules.Conformance, Revision: d.part.Revision(), Cache: b.opts.Schemas, Budget: b.budget(d.part), Inputs: rules.ValidateInput,
		Sanitize: rules.Sanitize,
	}
	it := lists.Check(d.Kind, d.raw)
	d.raw, d.Native, d.Input, d.Output = it.Item, it.Native, it.Input, it.Output
	if rules.override(d.Kind, d.Native).Hidden {
		seen[d.Native] = true
		return false
	}
	finding := Finding{Kind: d.Kind, Upstream: d.part.Upstream(), Native: d.Native}
	if it.Unusable != "" {
		finding.Issue, finding.Reason, finding.Against = Quarantined, it.Unusable, it.UnusableKind
		b.findings = append(b.findings, finding)
		return false
	}
	for _, f := range it.Violations {
		finding.Issue, finding.Reason, finding.Against, finding.Mended = Nonconforming, f.String(), f.Kind, f.Repaired
		b.findings = append(b.findings, finding)
	}
	if it.Removed != (sanitize.Counts{}) {
		b.findings = append(b.findings, Finding{
			Issue: Sanitized, Kind: d.Kind, Upstream: d.part.Upstream(), Native: d.Native, Removed: it.Removed,
			Reason: "characters were taken out of its text",
		})
	}
	return true
}

// held reports whether an item is kept back, the i-th of its part.
func (b *builder) held(d *draft, i int, seen map[string]bool) bool {
	if d.Kind != call.Tool || i >= len(d.part.source.HeldTools) || d.part.source.HeldTools[i] == "" {
		return false
	}
	b.findings = append(b.findings, Finding{
		Issue: Held, Kind: d.Kind, Upstream: d.part.Upstream(), Native: d.Native, Reason: d.part.source.HeldTools[i],
	})
	if _, ok := seen[d.Native]; !ok {
		seen[d.Native] = false // an override of it is for an item that there is
	}
	return true
}

// budget returns what the schemas of a part may still cost.
func (b *builder) budget(p *Part) *toolschema.Budget {
	if b.budgets[p] == nil {
		b.budgets[p] = toolschema.NewBudget()
	}
	return b.budgets[p]
}

// first reports whether an item is the first of its part with its name.
func (b *builder) first(d *draft, seen map[string]bool) bool {
	if seen[d.Native] {
		b.findings = append(b.findings, Finding{
			Issue: Duplicate, Kind: d.Kind, Upstream: d.part.Upstream(), Native: d.Native, Against: conform.DuplicateItem,
			Reason: "the upstream lists it more than once; the first counts",
		})
		return false
	}
	seen[d.Native] = true
	return true
}

// override makes an item what the configuration says that it is published as.
func (d *draft) override() {
	o := d.part.Rules().override(d.Kind, d.Native)
	d.alias = d.Native
	if o.Name != "" {
		d.alias = o.Name
	}
	for _, m := range []struct{ name, text string }{{"title", o.Title}, {"description", o.Description}} {
		if m.text != "" {
			d.raw = wire.SetMember(d.raw, m.name, wire.String(m.text))
		}
	}
}

// unmatched reports overrides of items that a part which is up does not list.
func (b *builder) unmatched(p *Part, kind call.Kind, seen map[string]bool) {
	overrides := map[call.Kind]map[string]Override{call.Tool: p.Rules().ToolOverride, call.Prompt: p.Rules().PromptOverride}[kind]
	if p.source.Down != nil {
		return
	}
	for _, native := range slices.Sorted(maps.Keys(overrides)) {
		if _, listed := seen[native]; !listed {
			b.findings = append(b.findings, Finding{
				Issue: Unmatched, Kind: kind, Upstream: p.Upstream(), Native: native, Reason: "the override is for an item that the upstream does not list",
			})
		}
	}
}

// renamed reports whether the configuration gives the item another name.
func (d *draft) renamed() bool { return d.alias != d.Native }

// take gives an item its public name, unless another has it.
func (b *builder) claim(d *draft, public string) bool {
	if _, taken := b.public[d.Kind][public]; taken {
		return false
	}
	b.public[d.Kind][public] = d.Entry
	d.Public, d.placed = public, true
	if d.marked && !d.renamed() {
		b.report(d, Shortened, "the name does not fit into [A-Za-z0-9_-]{1,64}, or looks like one that was shortened")
	}
	return true
}

// resettle names an item whose name another item has.
func (b *builder) publishFallback(d *draft) {
	own := d.name()
	d.preferredName = own
	d.naming, d.marked = d.naming.Fallback(), false
	names := []string{d.name()}
	if !isURI(d.Kind) {
		names = append(names, d.naming.HashedName(d.alias), d.naming.HashedName(d.Native))
	}
	for _, name := range names {
		if !b.claim(d, name) {
			continue
		}
		if isURI(d.Kind) {
			if b.renamed[d.part] == nil {
				b.renamed[d.part] = make(map[string]string)
			}
			b.renamed[d.part][d.Native] = name
		}
		d.marked = !isURI(d.Kind)
		whose := "another upstream has"
		if d.reservedFor != nil && d.reservedFor != d.part {
			whose = fmt.Sprintf("items of the upstream %s that clash have", d.reservedFor.Upstream())
		} else if d.mayBelongTo != nil {
			whose = fmt.Sprintf("the upstream %s, which was never listed yet and goes first, may have", d.mayBelongTo.Upstream())
		} else if holder := b.public[d.Kind][own]; holder != nil && holder.part == d.part {
			whose = "another item of this upstream has"
		}
		b.report(d, Clash, fmt.Sprintf("%s the name %q", whose, own))
		return
	}
	b.report(d, Clash, fmt.Sprintf("other items have the name %q and those that could stand for it", own))
}

// share publishes a web address, which several upstreams may list. The drafts
// come in the order of the configuration.
func (b *builder) publishWebAddress(d *draft) {
	if b.claim(d, d.Native) {
		return
	}
	d.Public, d.placed, d.repeated = d.Native, true, true
	last := b.public[d.Kind][d.Native]
	for last.next != nil {
		last = last.next
	}
	last.next = d.Entry
	b.report(d, Clash, "an upstream before lists the same web address and serves it")
}

func (b *builder) report(d *draft, what Issue, reason string) {
	b.findings = append(b.findings, Finding{
		Issue: what, Kind: d.Kind, Upstream: d.part.Upstream(), Native: d.Native, Public: d.Public, Reason: reason,
	})
}

// finish makes entries of what was published, once all public URIs are known.
func (b *builder) finish() {
	for p, uris := range b.renamed {
		p.naming = p.naming.WithRenamed(uris)
	}
	for kind, drafts := range b.drafts {
		b.entries[kind] = make([]*Entry, len(drafts))
		for i, d := range drafts {
			d.index = i
			if d.Kind == call.Resource && b.opts.Enrich {
				d.raw = enrich.ListItem(d.raw)
			}
			d.Raw = d.part.naming.Item(d.Kind, d.raw, d.Public, d.marked)
			b.entries[kind][i] = d.Entry
			if d.Kind == call.Template && (d.web() || d.part.naming.Prefix() == "") {
				b.addPattern(d.Entry, d.naming)
			}
		}
	}
	// What begins with an upstream's name goes before what others may expand to the same.
	slices.SortStableFunc(b.patterns, func(x, y pattern) int { return cmp.Compare(x.rank(), y.rank()) })
}

func isURI(kind call.Kind) bool { return kind == call.Resource || kind == call.Template }

func (d *draft) web() bool { return isURI(d.Kind) && namespace.IsWeb(d.Native) }

// name returns the public name that the item's naming makes.
func (d *draft) name() string {
	if isURI(d.Kind) {
		return d.naming.PublicURI(d.Native)
	}
	name, plain := d.naming.Name(d.alias)
	d.marked = !plain || d.renamed()
	return name
}
