package profile

import (
	"slices"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/wire"
)

// Default is the name of the profile that is served at /mcp.
const Default = "default"

// Options describe a profile.
type Options struct {
	Name      string
	Upstreams []string         // nil: all
	Tags      []string         // nil: items need no tag
	Select    policy.Selection // by ordinary public names
	// Annotations are hints that tools must have, by name: true or false. One that a tool does not
	// give has the default of the specification.
	Annotations map[string]bool
	// Rules restrict what the policy of all profiles allows. They mean ordinary public names.
	Rules []policy.Rule

	// Search says that lists of tools leave out the tools whose ordinary public name no glob of
	// Pinned matches. They can be called all the same.
	Search bool
	Pinned []string
	// Introduction introduces the tools that are not listed, in the instructions. It may contain
	// [Upstreams].
	Introduction string
	// Own are the gateway's own items.
	Own          []OwnItem
	ShortNames   bool    // tools and prompts lose their prefixes where nothing clashes
	Trim         Trim    // what lists leave out
	Instructions *string // in the place of those of the upstreams; nil for none

	// Configured are the upstreams of the configuration with their tags.
	Configured []Upstream
}

// Upstreams stands in an introduction for the upstreams that a caller sees, with the number of
// their tools.
const Upstreams = "{UPSTREAMS}"

// OwnItem is an item of the gateway itself.
type OwnItem struct {
	Kind       call.Kind
	Definition wire.Raw // valid, with a name that is fit to be a public one
	// Meta says that the item is a tool that serves the use of others. Searches do not find it.
	Meta bool
	// WholeView says that the answer depends on the whole view: a call waits for upstreams that
	// are starting, as lists do.
	WholeView bool
}

// Upstream has the properties of an upstream that a profile reads.
type Upstream struct {
	Name string
	Tags []string
	// Tools and Prompts are tags of single items by their native names.
	Tools, Prompts map[string][]string
}

// Profile is a compiled profile.
type Profile struct {
	name    string
	without map[string]bool // upstreams that are no part of the profile
	policy  *policy.Policy
	hints   map[string]bool
	pinned  *policy.Policy // selects the tools that are listed, nil for all
	intro   string
	own     []OwnItem

	short        bool
	trim         Trim
	instructions *string
}

// New compiles a profile. It returns an error if a rule is invalid.
func New(o Options) (*Profile, error) {
	p := &Profile{
		name: o.Name, without: make(map[string]bool), hints: o.Annotations, intro: o.Introduction, own: o.Own,
		short: o.ShortNames, trim: o.Trim, instructions: o.Instructions,
	}
	own := policy.Options{Default: policy.Allow, Profile: o.Name, Select: o.Select, Rules: o.Rules, Upstreams: make(map[string]policy.Upstream)}
	for _, u := range o.Configured {
		tagged, whole := o.tagged(&u)
		switch {
		case o.Upstreams != nil && !slices.Contains(o.Upstreams, u.Name), !whole && tagged == nil:
			p.without[u.Name] = true
		case !whole:
			own.Upstreams[u.Name] = *tagged
		}
	}
	var err error
	if p.policy, err = policy.New(own); err == nil && o.Search {
		listed := policy.Globs{Allow: append([]string{}, o.Pinned...)}
		p.pinned, err = policy.New(policy.Options{Default: policy.Allow, Profile: o.Name, Select: policy.Selection{Tools: listed}})
	}
	return p, err
}

// tagged returns what the tags select of an upstream: the whole, or single items, or nil.
func (o *Options) tagged(u *Upstream) (items *policy.Upstream, whole bool) {
	if o.Tags == nil || o.anyTag(u.Tags) {
		return nil, true
	}
	tools, prompts := o.taggedItems(u.Tools), o.taggedItems(u.Prompts)
	if len(tools)+len(prompts) == 0 {
		return nil, false
	}
	return &policy.Upstream{Tools: policy.Globs{Allow: tools}, Prompts: policy.Globs{Allow: prompts}, Resources: policy.Globs{Allow: []string{}}}, false
}

// taggedItems returns the names with one of the tags, never nil.
func (o *Options) taggedItems(tags map[string][]string) []string {
	names := []string{}
	for name, has := range tags {
		if o.anyTag(has) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (o *Options) anyTag(has []string) bool {
	return slices.ContainsFunc(o.Tags, func(tag string) bool { return slices.Contains(has, tag) })
}

// Name returns the name of the profile.
func (p *Profile) Name() string { return p.name }

// HasUpstream reports whether an upstream is part of the profile. Nothing in the profile
// reveals that there is another one.
func (p *Profile) HasUpstream(name string) bool { return !p.without[name] }

// Selects reports whether a listed item of an upstream of the profile is selected. The item is
// the one that has its ordinary public name.
func (p *Profile) Selects(it policy.Item) bool {
	return p.MaySelect(it) && (it.Kind != call.Tool || hasHints(it.Raw, p.hints))
}

// MaySelect reports whether an item could be selected if it had another definition. It may be called on nil.
func (p *Profile) MaySelect(it policy.Item) bool { return p == nil || p.policy.Selects(it) }

// ByDefinition reports whether the selection of items of a kind depends on more than their names.
// It may be called on nil.
func (p *Profile) ByDefinition(kind call.Kind) bool {
	return p != nil && kind == call.Tool && len(p.hints) > 0
}

// Lists reports whether lists show a tool of the profile. The others can be called all the same.
func (p *Profile) Lists(tool policy.Item) bool { return p.pinned == nil || p.pinned.Selects(tool) }

// Searches reports whether lists leave out tools, which clients find by searches.
func (p *Profile) Searches() bool { return p.pinned != nil }

// Introduction introduces the tools that are not listed, "" for none.
func (p *Profile) Introduction() string { return p.intro }

// Own returns the gateway's own items.
func (p *Profile) Own() []OwnItem { return p.own }

// Patterns returns the globs of the profile and of its rules.
func (p *Profile) Patterns() []policy.Pattern {
	patterns := p.policy.Patterns()
	if p.pinned != nil {
		for _, pinned := range p.pinned.Patterns() {
			pinned.Place = "pinned" + strings.TrimPrefix(pinned.Place, "tools.allow")
			patterns = append(patterns, pinned)
		}
	}
	return patterns
}

// Policy returns the policy of the profile's table: common, narrowed by the profile.
func (p *Profile) Policy(common *policy.Policy) *policy.Policy { return common.Narrowed(p.policy) }

// ShortNames reports whether the profile is not nil, and tools and prompts lose their prefixes where nothing clashes.
func (p *Profile) ShortNames() bool { return p != nil && p.short }

// Trim returns an item of a list without what the profile leaves out: the same slice if that is
// nothing.
func (p *Profile) Trim(item wire.Raw) wire.Raw { return p.trim.Item(item) }

// Instructions returns the instructions in the place of those of the upstreams, and false if
// theirs stay, or the profile is nil.
func (p *Profile) Instructions() (text string, ok bool) {
	if p == nil || p.instructions == nil {
		return "", false
	}
	return *p.instructions, true
}
