package catalog

import (
	"slices"
	"sync"

	"mcpgateway/internal/call"
)

// Changes says which lists differ between two tables.
type Changes struct{ Tools, Prompts, Resources bool }

// Any reports whether a list differs.
func (c Changes) Any() bool { return c.Tools || c.Prompts || c.Resources }

func (c Changes) or(o Changes) Changes {
	return Changes{c.Tools || o.Tools, c.Prompts || o.Prompts, c.Resources || o.Resources}
}

// Diff compares two tables for each client. A client learns only of changes that it can see.
// A Diff may be used concurrently.
type Diff struct {
	old, new  *Table
	announced map[string]Changes

	mu   sync.Mutex
	seen map[[2]*listings]Changes
}

// NewDiff compares two tables. announced are the changes that upstreams announced. A client to
// which policy shows all items of such a list is notified of an announced change, even if the
// list does not differ. Other clients are notified only of differences, because an announced
// change may be about an item that they must not know, or that is not listed yet.
func NewDiff(old, new *Table, announced map[string]Changes) *Diff {
	return &Diff{old: old, new: new, announced: announced, seen: make(map[[2]*listings]Changes)}
}

// For returns the changes for a client. Templates count as resources, as in
// notifications/resources/list_changed.
func (d *Diff) For(who *call.Principal, client *call.Client) Changes {
	before, after := d.old.View(who, client), d.new.View(who, client)
	c := d.between(before.listings, after.listings)
	for name, changes := range d.announced {
		if p := after.Part(name); p != nil && changes.Any() {
			c = c.or(Changes{
				Tools:     changes.Tools && !after.Restricts(call.Tool, p),
				Prompts:   changes.Prompts && !after.Restricts(call.Prompt, p),
				Resources: changes.Resources && !after.Restricts(call.Resource, p),
			})
		}
	}
	return c
}

// between returns the differences between two views. It compares them once.
func (d *Diff) between(before, after *listings) Changes {
	pair := [2]*listings{before, after}
	d.mu.Lock()
	defer d.mu.Unlock()
	c, ok := d.seen[pair]
	if !ok {
		c = changesOf(before, after)
		d.seen[pair] = c
	}
	return c
}

// OfPolicy reports whether the tables have different policies, so that a client may see other
// items of the same table.
func (d *Diff) OfPolicy() bool {
	return d.old.opts.Policy != d.new.opts.Policy || d.old.opts.Profile != d.new.opts.Profile
}

// Any returns the differences between the tables, whether or not a client can see them.
func (d *Diff) Any() Changes {
	c := changes(d.old.entriesUp, d.new.entriesUp)
	for _, changes := range d.announced {
		c = c.or(changes)
	}
	return c
}

func changesOf(before, after *listings) Changes {
	return changes(
		func(kind call.Kind) []*Entry { return before.listed[kind] },
		func(kind call.Kind) []*Entry { return after.listed[kind] })
}

func changes(before, after func(call.Kind) []*Entry) Changes {
	differ := func(kind call.Kind) bool {
		return !slices.EqualFunc(before(kind), after(kind), func(a, b *Entry) bool { return string(a.Raw) == string(b.Raw) })
	}
	return Changes{
		Tools:     differ(call.Tool),
		Prompts:   differ(call.Prompt),
		Resources: differ(call.Resource) || differ(call.Template),
	}
}

// entriesUp returns the entries of upstreams that are up.
func (t *Table) entriesUp(kind call.Kind) []*Entry {
	return slices.DeleteFunc(slices.Clone(t.entries[kind]), func(e *Entry) bool { return e.part.source.Down != nil })
}
