package catalog

import (
	"sync"
	"sync/atomic"

	"mcpgateway/internal/call"
	"mcpgateway/internal/canonical"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
	"mcpgateway/internal/toolschema"
)

// Table is the merged catalog of all upstreams. It is immutable, except that it keeps views,
// encoded pages and counts.
type Table struct {
	opts     Options
	policy   *policy.Policy // of the table: Options.Policy, narrowed by the profile
	ordinary *Table         // the table without a profile, nil if this is it
	parts    []*Part
	byName   map[string]*Part
	byPrefix map[string]*Part // parts with a prefix
	open     *Part            // the only part without a prefix, nil if there is not exactly one
	own      *Part            // with the gateway's own items, nil for none

	entries [call.Kinds][]*Entry // in the order of lists
	public  [call.Kinds]map[string]*Entry
	// byOrdinary are the entries of a profile's table by the index of the ordinary entry, nil for
	// those that are not selected.
	byOrdinary [call.Kinds][]*Entry
	patterns   []pattern
	findings   []Finding
	heldTools  map[string]string // why tools are held back, by the public name that they would have

	pages   keptPages
	indexes toolIndexes
	views   viewCache
	sole    atomic.Pointer[View] // if all callers have the same rights

	spelledOnce sync.Once
	spelled     map[spelledURI][]*Entry // resources by their canonical URIs

	shownOnce sync.Once
	shown     [call.Kinds]int

	nativeOnce sync.Once
	native     map[*Part][]pattern // templates under their native names
}

// Build merges the sources, in the order of the configuration.
func Build(opts Options, sources []Source) *Table {
	if selects := opts.Profile; selects != nil {
		opts.Profile = nil
		return Build(opts, sources).ForProfile(selects)
	}
	if opts.PageItems <= 0 {
		opts.PageItems = DefaultPageItems
	}
	if opts.PageBytes <= 0 {
		opts.PageBytes = DefaultPageBytes
	}
	t := &Table{
		opts:     opts,
		policy:   opts.Policy,
		byName:   make(map[string]*Part, len(sources)),
		byPrefix: make(map[string]*Part, len(sources)),
	}
	open := 0
	for i, s := range sources {
		p := &Part{source: s, naming: s.Naming, index: i, publicLeads: publicLeadsOf(s.Naming), capabilities: readCapabilities(s.Capabilities)}
		t.parts = append(t.parts, p)
		t.sanitizeInstructions(p)
		t.byName[p.Upstream()] = p
		if prefix := s.Naming.Prefix(); prefix != "" {
			t.byPrefix[prefix] = p
			continue
		}
		t.open = p
		open++
	}
	if open > 1 {
		t.open = nil
	}
	defer opts.Schemas.Begin()()
	b := &builder{Table: t, renamed: make(map[*Part]map[string]string), budgets: make(map[*Part]*toolschema.Budget)}
	for kind := range call.Kind(call.Kinds) {
		b.publish(kind)
	}
	b.finish()
	t.limitPages()
	return t
}

// limitPages bounds the encoded pages that are kept.
func (t *Table) limitPages() { t.pages.limit = max(leastKeptPages, keptPerByte*t.size()) }

// size returns the bytes of all items.
func (t *Table) size() int {
	n := 0
	for _, entries := range t.entries {
		for _, e := range entries {
			n += len(e.Raw)
		}
	}
	return n
}

// sanitizeInstructions sanitizes the instructions of a part by its rules.
func (t *Table) sanitizeInstructions(p *Part) {
	text, taken := p.Rules().Sanitize.Text(p.source.Instructions)
	if p.source.Instructions = text; taken != (sanitize.Counts{}) {
		t.findings = append(t.findings, Finding{
			Issue: Sanitized, Upstream: p.Upstream(), Removed: taken, Reason: "characters were taken out of its instructions",
		})
	}
}

// Findings returns what was reported about items, in an order that depends only on the
// sources. The slice must not be changed.
func (t *Table) Findings() []Finding { return t.findings }

// Published returns all items of a kind, also those that few may see, in the order of lists. The slice must not be changed.
func (t *Table) Published(kind call.Kind) []*Entry { return t.entries[kind] }

// Part returns the part of the upstream with this name.
func (t *Table) Part(upstream string) (*Part, bool) {
	p, ok := t.byName[upstream]
	return p, ok
}

// Counts returns how many items of each kind are published by upstreams that are up.
func (t *Table) Counts() [call.Kinds]int {
	var n [call.Kinds]int
	for kind, entries := range t.entries {
		for _, e := range entries {
			if e.part.source.Down == nil && !e.repeated && e.part != t.own {
				n[kind]++
			}
		}
	}
	return n
}

// Shown returns how many names of each kind clients can be shown before rules look at the principal: [Table.Counts] without
// the items that the lists of their upstreams hide.
func (t *Table) Shown() [call.Kinds]int {
	t.shownOnce.Do(func() {
		for kind, heads := range t.public {
			for _, e := range heads {
				for e != nil && (e.part == t.own || e.part.source.Down != nil || t.HiddenByLists(e)) {
					e = e.next
				}
				if e != nil {
					t.shown[kind]++
				}
			}
		}
	})
	return t.shown
}

// HiddenByLists reports whether the allow and deny lists of its upstream hide an item from all clients.
func (t *Table) HiddenByLists(e *Entry) bool { return !t.opts.Policy.Selects(e.policyItem()) }

// View returns the view of a principal with this client, nil for an unknown client. Callers
// with the same rights share a view.
func (t *Table) View(who *call.Principal, client *call.Client) *View {
	if v := t.sole.Load(); v != nil {
		return v
	}
	c := caller(who, client)
	key := t.policy.Key(c)
	if v := t.views.get(key); v != nil {
		return v
	}
	rights := t.policy.Rights(c)
	same, ok := rights.Key()
	if !ok {
		same = ownView + key
	}
	v := t.views.join(key, same)
	if v == nil {
		var visible string
		v, visible = newView(t, rights, t.views.withVisible)
		v = t.views.put(key, same, visible, v)
	}
	if !t.policy.TellsCallersApart() {
		t.sole.Store(v)
	}
	return v
}

// RightsKey returns a text that is equal for callers whose rights in the table's profile are the
// same.
func (t *Table) RightsKey(who *call.Principal, client *call.Client) string {
	return t.policy.Key(caller(who, client))
}

func caller(who *call.Principal, client *call.Client) policy.Caller {
	c := policy.Caller{Principal: who}
	if client != nil {
		c.Revision = client.Revision
	}
	return c
}

// sameURI returns the listed resources of a part of which a URI is the canonical spelling, if
// policy reads the descriptions of resources.
func (t *Table) sameURI(p *Part, native string) []*Entry {
	if !t.policy.ReadsItems() {
		return nil
	}
	if t.ordinary != nil { // a listed resource counts, too, if the profile does not select it
		t = t.ordinary
		p = t.byName[p.Upstream()]
	}
	t.spelledOnce.Do(func() {
		t.spelled = make(map[spelledURI][]*Entry)
		for _, e := range t.entries[call.Resource] {
			if uri, ok := canonical.URI(e.Native); ok {
				key := spelledURI{e.part, uri}
				t.spelled[key] = append(t.spelled[key], e)
			}
		}
	})
	return t.spelled[spelledURI{p, native}]
}

type spelledURI struct {
	part *Part
	uri  string
}

// owner returns the part with a prefix that a public URI names, nil for none.
func (t *Table) owner(public string) *Part {
	o, ok := namespace.OwnerOf(public)
	if !ok {
		return nil
	}
	if !o.ByUpstream() {
		return t.byPrefix[o.Name]
	}
	if p := t.byName[o.Name]; p != nil && p.naming.Prefix() != "" {
		return p
	}
	return nil
}
