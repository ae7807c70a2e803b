package ruleset

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/namespace"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/router"
	"mcpgateway/internal/script"
)

// Rules are the rules of one configuration. The default profile is "", as in requests.
type Rules struct {
	Policy    *policy.Policy
	Endpoints *endpoint.Set
	Results   map[string]router.ResultRules // of the profiles that have any, nil if none has
	Scripts   metatool.Scripts              // the limits of scripts, and the tools that files define

	cfg      *config.Config
	profiles map[string]*profile.Profile
}

// New compiles the rules of a configuration, which must not change afterwards. Errors about rules
// of policy are config.Errors; a configuration that was loaded with [CheckConditions] has none.
func New(cfg *config.Config) (*Rules, error) {
	p, err := newPolicy(cfg)
	if err != nil {
		return nil, err
	}
	r := &Rules{
		Policy: p, Endpoints: Endpoints(cfg), cfg: cfg, profiles: make(map[string]*profile.Profile),
		Scripts: metatool.Scripts{Limits: scriptLimits(cfg.Scripts), Composites: make(map[string]map[string]*script.Composite)},
	}
	for i := range cfg.Profiles {
		if err := r.addProfile(&cfg.Profiles[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Endpoints returns the endpoints of a configuration.
func Endpoints(cfg *config.Config) *endpoint.Set {
	var profiles []endpoint.Profile
	for _, p := range cfg.Profiles {
		profiles = append(profiles, endpoint.Profile{Name: p.Name, Hosts: p.Hosts, Groups: p.Groups})
	}
	return endpoint.New(profiles)
}

// HasProfile reports whether there is a profile with this id. The default one always exists.
func (r *Rules) HasProfile(id string) bool { return id == "" || r.profiles[id] != nil }

// Profile returns what a profile selects: nil if there is no such profile, and for a default
// profile that selects everything.
func (r *Rules) Profile(id string) *profile.Profile { return r.profiles[id] }

// Profiles are the profiles of the configuration, by id, the default one first.
func (r *Rules) Profiles() iter.Seq2[string, *profile.Profile] {
	return func(yield func(string, *profile.Profile) bool) {
		for _, name := range r.Endpoints.Names() {
			id := endpoint.IDOf(name)
			if p := r.profiles[id]; p != nil && !yield(id, p) {
				return
			}
		}
	}
}

// UnmatchedGlobs returns the globs of the policy and the profiles that match nothing in the table
// of everything. Globs for upstreams that are not in the table, such as disabled ones, or that have
// not listed their items, are left out.
func (r *Rules) UnmatchedGlobs(t *catalog.Table, listed func(upstream string) bool) []catalog.UnusedGlob {
	var absent []*namespace.Naming
	for _, u := range r.cfg.Upstreams {
		if _, ok := t.Part(u.Name); ok && listed(u.Name) {
			continue
		}
		if s, err := namespace.New(u.Name, u.EffectivePrefix(), r.cfg.Namespace.Separator); err == nil {
			absent = append(absent, s)
		}
	}
	globs := t.UnusedGlobs(r.Policy, absent)
	for _, p := range r.Profiles() {
		globs = append(globs, t.UnusedGlobsOf(p, absent)...)
	}
	return globs
}

// UnreachableGlobs returns the globs of the policy and the profiles that can match no name that the configured upstreams can have.
func (r *Rules) UnreachableGlobs() []catalog.UnusedGlob {
	return r.UnmatchedGlobs(catalog.Build(catalog.Options{}, nil), func(string) bool { return false })
}

// HasWarning reports whether the configuration has a warning about a glob of a rule that denies or confirms: that it matches no name that an
// upstream can have.
func (r *Rules) HasWarning(g catalog.UnusedGlob) bool {
	return g.Restricts() && g.Rule != "" && slices.ContainsFunc(r.cfg.Warnings, func(w config.Warning) bool {
		return w.File == g.File && strings.HasSuffix(w.Path, "."+g.Place) && strings.HasPrefix(w.Msg, `"`+g.Text+`" `)
	})
}

// UpstreamsOf returns the upstreams of a configuration that the table of a profile needs: its own,
// and those without a prefix, since their items may have any name and clash with others.
func UpstreamsOf(cfg *config.Config, id string) []config.Upstream {
	r, err := New(cfg)
	if err != nil {
		return cfg.Upstreams // starting the gateway reports the error
	}
	in := cmp.Or(r.profiles[id], r.profiles[""])
	if in == nil {
		return cfg.Upstreams
	}
	return slices.DeleteFunc(slices.Clone(cfg.Upstreams), func(u config.Upstream) bool {
		return !in.HasUpstream(u.Name) && u.EffectivePrefix() != ""
	})
}
