package profile

import (
	"slices"

	"mcpgateway/internal/policy"
)

// Default is the name of the profile that is served at /mcp.
const Default = "default"

// Options describe a profile.
type Options struct {
	Name      string
	Upstreams []string         // nil: all
	Tags      []string         // nil: items need no tag
	Select    policy.Selection // by ordinary public names

	// Configured are the upstreams of the configuration with their tags.
	Configured []Upstream
}

// Upstream is what a profile needs to know of an upstream.
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
}

// New compiles a profile. It returns an error if a rule is invalid.
func New(o Options) (*Profile, error) {
	p := &Profile{name: o.Name, without: make(map[string]bool)}
	own := policy.Options{Default: policy.Allow, Profile: o.Name, Select: o.Select, Upstreams: make(map[string]policy.Upstream)}
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
	p.policy, err = policy.New(own)
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
func (p *Profile) Selects(it policy.Item) bool { return p.policy.Selects(it) }

// Policy returns the policy of the profile's table: common, narrowed by the profile.
func (p *Profile) Policy(common *policy.Policy) *policy.Policy { return common.Narrowed(p.policy) }
