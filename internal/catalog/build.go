package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/enrich"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
	"mcpgateway/internal/wire"
)

// builder fills a new table.
type builder struct {
	*Table
	drafts  [call.Kinds][]*draft
	renamed map[*Part]map[string]string // native URIs that clash → public
	budgets map[*Part]*toolschema.Budget
}

// draft is an item that is being published.
type draft struct {
	*Entry
	raw         wire.Raw          // as the upstream sent it, or repaired
	alias       string            // stands for the native name in the public name
	naming      *namespace.Naming // makes the public name
	marked      bool              // the public name does not contain the native one
	placed      bool              // the item has a public name
	mayBelongTo *Part             // an earlier upstream that may have the name
	reservedFor *Part             // the upstream for whose items the name is reserved
}

// publish publishes the items of one kind.
func (b *builder) publish(kind call.Kind) {
	drafts := b.read(kind)
	b.public[kind] = make(map[string]*Entry, len(drafts))
	for _, d := range drafts {
		if d.web() {
			b.publishWebAddress(d)
		}
	}
	// Items that keep their names go before those of the same upstream that an override
	// renames.
	for _, renamed := range []bool{false, true} {
		for _, d := range drafts {
			if !d.web() && d.naming.Prefix() != "" && d.renamed() == renamed && !b.claim(d, d.name()) {
				b.publishFallback(d)
			}
		}
	}
	// Upstreams without a prefix get the remaining names. Items that keep their names go before
	// those of the same upstream that an override renames. An item does not get a name that an
	// earlier upstream may still list: the name would lead to another upstream later.
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

// reservedFor returns the part without a prefix for whose clashing items a public name is
// reserved, nil for none. The name is reserved even if nothing clashes now: that depends on
// other upstreams.
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

// mayBelong returns an earlier part that was never listed and may have the name, nil for
// none.
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

// read returns the items of one kind that can be published, in the order of lists.
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

// check checks an item by the rules of its upstream. It returns false if the item cannot be
// published or is hidden. Nothing is reported about hidden items.
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
		finding.Issue, finding.Reason, finding.Against, finding.Repaired = Nonconforming, f.String(), f.Kind, f.Repaired
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

// held reports whether the i-th item of its part is held back.
func (b *builder) held(d *draft, i int, seen map[string]bool) bool {
	if d.Kind != call.Tool || i >= len(d.part.source.HeldTools) || d.part.source.HeldTools[i] == "" {
		return false
	}
	d.override()
	name, reason := d.name(), d.part.source.HeldTools[i]
	b.findings = append(b.findings, Finding{
		Issue: Held, Kind: d.Kind, Upstream: d.part.Upstream(), Native: d.Native, HeldName: name, Reason: reason,
	})
	if _, known := b.heldTools[name]; !known {
		if b.heldTools == nil {
			b.heldTools = make(map[string]string)
		}
		b.heldTools[name] = reason
	}
	if _, ok := seen[d.Native]; !ok {
		seen[d.Native] = false // the override has an item
	}
	return true
}

// budget returns what checking schemas of a part may still cost.
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

// override applies the override of an item.
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
	d.raw = withHints(d.raw, o.Annotations)
}

// withHints returns a tool with hints in the place of its own.
func withHints(tool wire.Raw, hints map[string]bool) wire.Raw {
	if len(hints) == 0 {
		return tool
	}
	annotations := wire.ValueOf(tool).Get("annotations").Raw()
	if wire.ValueOf(annotations).Kind() != '{' {
		annotations = wire.Raw("{}")
	}
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		annotations = wire.SetMember(annotations, name, strconv.AppendBool(nil, hints[name]))
	}
	return wire.SetMember(tool, "annotations", annotations)
}

// unmatched reports overrides without an item, if the upstream is up.
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

// renamed reports whether an override renames the item.
func (d *draft) renamed() bool { return d.alias != d.Native }

// claim gives an item its public name, unless another item has it.
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

// publishFallback publishes an item whose public name another item has.
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

// publishWebAddress publishes a web address, which several upstreams may list. The drafts
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

// finish makes entries of the drafts, once all public URIs are known.
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
			d.setRaw(d.part.naming.Item(d.Kind, d.raw, d.Public, d.marked))
			b.entries[kind][i] = d.Entry
			if d.Kind == call.Template && (d.web() || d.part.naming.Prefix() == "") {
				b.addPattern(d.Entry, d.naming)
			}
		}
	}
	// Templates with the name of an upstream go before those of others that may expand to the
	// same URI.
	slices.SortStableFunc(b.patterns, func(x, y pattern) int { return cmp.Compare(x.rank(), y.rank()) })
}

func isURI(kind call.Kind) bool { return kind == call.Resource || kind == call.Template }

func (d *draft) web() bool { return isURI(d.Kind) && namespace.IsWeb(d.Native) }

// name returns the public name by the naming of the draft.
func (d *draft) name() string {
	if isURI(d.Kind) {
		return d.naming.PublicURI(d.Native)
	}
	name, plain := d.naming.Name(d.alias)
	d.marked = !plain || d.renamed()
	return name
}
