package catalog

import (
	"fmt"
	"slices"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/wire"
)

// builder fills a table that nobody else sees yet.
type builder struct {
	*Table
	drafts  [call.Kinds][]*draft
	renamed map[*Part]map[string]string // native URIs that clash → public
}

// draft is an item on its way to an entry.
type draft struct {
	*Entry
	raw    wire.Raw         // as the upstream sent it
	space  *namespace.Space // the naming that the public name is of
	marked bool             // the public name does not show the native one
	placed bool             // the item has a public name
}

// publish gives the items of one kind public names.
func (b *builder) publish(kind call.Kind) {
	drafts := b.read(kind)
	b.public[kind] = make(map[string]*Entry, len(drafts))
	for _, d := range drafts {
		switch {
		case d.web():
			b.share(d)
		case d.space.Prefix() != "" && !b.take(d, d.name()):
			b.resettle(d)
		}
	}
	// Upstreams without a prefix get what is left. Of one upstream those items
	// go first that keep their names.
	for start, end := 0, 0; start < len(drafts); start = end {
		var clashing []*draft
		for end = start; end < len(drafts) && drafts[end].part == drafts[start].part; end++ {
			d := drafts[end]
			if d.placed || d.web() || d.space.Prefix() != "" {
				continue
			}
			if name := d.name(); isURI(kind) && b.owner(name) != nil || !b.take(d, name) {
				clashing = append(clashing, d)
			}
		}
		for _, d := range clashing {
			b.resettle(d)
		}
	}
	b.drafts[kind] = slices.DeleteFunc(drafts, func(d *draft) bool { return !d.placed })
}

// read returns the items of one kind that can be published, in the order of
// lists.
func (b *builder) read(kind call.Kind) []*draft {
	var drafts []*draft
	for _, p := range b.parts {
		items := p.source.Items[kind]
		seen := make(map[string]bool, len(items))
		drafts = slices.Grow(drafts, len(items))
		for _, raw := range items {
			d := &draft{Entry: &Entry{Kind: kind, part: p}, raw: raw, space: p.source.Space}
			var fault string
			d.Native, fault = nativeName(kind, raw)
			switch {
			case fault != "":
				b.report(d, Quarantined, fault)
			case seen[d.Native]:
				b.report(d, Duplicate, "the upstream lists it more than once; the first counts")
			default:
				seen[d.Native] = true
				drafts = append(drafts, d)
			}
		}
	}
	return drafts
}

// take gives an item its public name, unless another has it.
func (b *builder) take(d *draft, public string) bool {
	if _, taken := b.public[d.Kind][public]; taken {
		return false
	}
	b.public[d.Kind][public] = d.Entry
	d.Public, d.placed = public, true
	if d.marked {
		b.report(d, Shortened, "the name does not fit into [A-Za-z0-9_-]{1,64}, or looks like one that was shortened")
	}
	return true
}

// resettle names an item whose name another item has.
func (b *builder) resettle(d *draft) {
	own := d.name()
	d.space, d.marked = d.space.Fallback(), false
	names := []string{d.name()}
	if !isURI(d.Kind) {
		names = append(names, d.space.HashedName(d.Native))
	}
	for _, name := range names {
		if !b.take(d, name) {
			continue
		}
		if isURI(d.Kind) {
			if b.renamed[d.part] == nil {
				b.renamed[d.part] = make(map[string]string)
			}
			b.renamed[d.part][d.Native] = name
		}
		d.marked = !isURI(d.Kind)
		b.report(d, Clash, fmt.Sprintf("another upstream has the name %q", own))
		return
	}
	b.report(d, Clash, fmt.Sprintf("other items have the name %q and those that could stand for it", own))
}

// share publishes a web address, which several upstreams may list. The drafts
// come in the order of the configuration.
func (b *builder) share(d *draft) {
	if b.take(d, d.Native) {
		return
	}
	d.Public, d.placed, d.again = d.Native, true, true
	last := b.public[d.Kind][d.Native]
	for last.next != nil {
		last = last.next
	}
	last.next = d.Entry
	b.report(d, Clash, "an upstream before lists the same web address and serves it")
}

func (b *builder) report(d *draft, what Fault, reason string) {
	b.findings = append(b.findings, Finding{what, d.Kind, d.part.Upstream(), d.Native, d.Public, reason})
}

// finish makes entries of what was published, once all public URIs are known.
func (b *builder) finish() {
	for p, uris := range b.renamed {
		p.space = p.space.WithRenamed(uris)
	}
	for kind, drafts := range b.drafts {
		b.entries[kind] = make([]*Entry, len(drafts))
		for i, d := range drafts {
			d.index = i
			d.Raw = d.part.space.Item(d.Kind, d.raw, d.Public, d.marked)
			b.entries[kind][i] = d.Entry
			if d.Kind == call.Template && (d.web() || d.part.space.Prefix() == "") {
				b.addPattern(d.Entry, d.space)
			}
		}
	}
}

func isURI(kind call.Kind) bool { return kind == call.Resource || kind == call.Template }

func (d *draft) web() bool { return isURI(d.Kind) && namespace.IsWeb(d.Native) }

// name returns the public name that the item's naming makes.
func (d *draft) name() string {
	if isURI(d.Kind) {
		return d.space.PublicURI(d.Native)
	}
	name, plain := d.space.Name(d.Native)
	d.marked = !plain
	return name
}
