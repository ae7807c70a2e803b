package catalog

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/yosida95/uritemplate/v3"

	"mcpgateway/internal/call"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
)

// Table is the merged catalog of all upstreams. It is immutable but for what
// its views keep once it is computed.
type Table struct {
	opts     Options
	parts    []*Part
	byName   map[string]*Part
	byPrefix map[string]*Part // parts with a prefix
	open     *Part            // the only part without a prefix, nil when there are none or several

	entries  [call.Kinds][]*Entry // in the order of lists
	public   [call.Kinds]map[string]*Entry
	patterns []pattern
	findings []Finding

	views sync.Map // rights → *View
}

// pattern is a template that has no prefix to tell whose it is.
type pattern struct {
	entry    *Entry
	space    *namespace.Space // the naming that the template was published with
	lead     string           // what every expansion begins with
	template *uritemplate.Template
	vars     int
}

// maxMatching bounds what one URI may cost to match with templates, in bytes
// times variables, some tens of milliseconds at worst. Templates come from
// upstreams and URIs from clients, so both may be made to be slow together.
const maxMatching = 1 << 19

// matching iterates over the templates that can expand to uri, in the order of
// lists.
func (t *Table) matching(uri string) iter.Seq[pattern] {
	return func(yield func(pattern) bool) {
		cost := 0
		for _, p := range t.patterns {
			if !strings.HasPrefix(uri, p.lead) {
				continue
			}
			if cost += len(uri) * (p.vars + 1); cost > maxMatching {
				return
			}
			if p.template.Regexp().MatchString(uri) && !yield(p) {
				return
			}
		}
	}
}

// Build merges the sources, which stand in the order of the configuration.
func Build(opts Options, sources []Source) *Table {
	if opts.PageItems <= 0 {
		opts.PageItems = DefaultPageItems
	}
	if opts.PageBytes <= 0 {
		opts.PageBytes = DefaultPageBytes
	}
	t := &Table{
		opts:     opts,
		byName:   make(map[string]*Part, len(sources)),
		byPrefix: make(map[string]*Part, len(sources)),
	}
	open := 0
	for i, s := range sources {
		p := &Part{source: s, space: s.Space, index: i}
		t.parts = append(t.parts, p)
		t.byName[p.Upstream()] = p
		if prefix := s.Space.Prefix(); prefix != "" {
			t.byPrefix[prefix] = p
			continue
		}
		t.open = p
		open++
	}
	if open > 1 {
		t.open = nil
	}
	b := &builder{Table: t, renamed: make(map[*Part]map[string]string)}
	for kind := range call.Kind(call.Kinds) {
		b.publish(kind)
	}
	b.finish()
	return t
}

// Findings reports clashes, names that do not fit, and items left out. The
// order is the same for the same sources. The caller must not change it.
func (t *Table) Findings() []Finding { return t.findings }

// Part returns the part of the upstream with this name.
func (t *Table) Part(upstream string) (*Part, bool) {
	p, ok := t.byName[upstream]
	return p, ok
}

// Counts returns how many items of each kind are published by upstreams that
// are not down.
func (t *Table) Counts() [call.Kinds]int {
	var n [call.Kinds]int
	for kind, entries := range t.entries {
		for _, e := range entries {
			if e.part.source.Down == nil && !e.again {
				n[kind]++
			}
		}
	}
	return n
}

// View returns what a principal sees of the table. Principals with the same
// rights share one.
func (t *Table) View(who *call.Principal) *View {
	rights := t.opts.Policy.Rights(who)
	if v, ok := t.views.Load(rights); ok {
		return v.(*View)
	}
	v, _ := t.views.LoadOrStore(rights, newView(t, who))
	return v.(*View)
}

// decide asks policy about an item of a part.
func (t *Table) decide(who *call.Principal, kind call.Kind, p *Part, public, native string) bool {
	it := policy.Item{Kind: kind, Upstream: p.Upstream(), Public: public, Native: native}
	return t.opts.Policy.Decide(who, it).Effect == policy.Allow
}

// owner returns the part with a prefix that a public URI names, nil when it
// names none.
func (t *Table) owner(public string) *Part {
	o, ok := namespace.OwnerOf(public)
	if !ok {
		return nil
	}
	if !o.ByUpstream() {
		return t.byPrefix[o.Name]
	}
	if p := t.byName[o.Name]; p != nil && p.space.Prefix() != "" {
		return p
	}
	return nil
}

// addPattern makes a template's URIs resolvable where no prefix shows whose
// they are.
func (t *Table) addPattern(e *Entry, space *namespace.Space) {
	template, err := uritemplate.New(e.Public)
	if err != nil {
		return // the native text was one, and a prefix has plain characters only
	}
	lead, _, _ := strings.Cut(e.Public, "{")
	t.patterns = append(t.patterns, pattern{e, space, lead, template, templateVars(e.Public)})
}

// Changes says which lists differ between two tables.
type Changes struct{ Tools, Prompts, Resources bool }

// Any reports whether any list differs.
func (c Changes) Any() bool { return c.Tools || c.Prompts || c.Resources }

// Diff reports which lists differ for anyone who may see all that the policy
// lets anyone see. Templates count among the resources, as for
// notifications/resources/list_changed. old may be nil, the table before the
// first.
func Diff(old, new *Table) Changes {
	differ := func(kind call.Kind) bool {
		var before []*Entry
		if old != nil {
			before = old.View(call.Anonymous).listed[kind]
		}
		return !slices.EqualFunc(before, new.View(call.Anonymous).listed[kind], func(a, b *Entry) bool {
			return string(a.Raw) == string(b.Raw)
		})
	}
	return Changes{
		Tools:     differ(call.Tool),
		Prompts:   differ(call.Prompt),
		Resources: differ(call.Resource) || differ(call.Template),
	}
}
