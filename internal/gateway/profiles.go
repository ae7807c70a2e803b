package gateway

import (
	"mcpgateway/internal/config"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/script"
)

// addProfiles translates the profiles of a configuration.
func (gen *generation) addProfiles(cfg *config.Config) error {
	var configured []profile.Upstream
	for _, u := range cfg.Upstreams {
		configured = append(configured, profile.Upstream{
			Name: u.Name, Tags: u.Tags, Tools: tagsOf(u.Tools.Override), Prompts: tagsOf(u.Prompts.Override),
		})
	}
	gen.scripts = metatool.Scripts{Limits: scriptLimits(cfg.Scripts), Composites: make(map[string]map[string]*script.Composite)}
	for _, c := range cfg.Profiles {
		rules, err := policyRules(c.Policy.Rules)
		if err != nil {
			return err
		}
		own := metatool.Options{Search: c.Catalog == config.CatalogSearch, Split: c.Split, Results: c.MaxResult > 0}
		if err := gen.addScripts(&c, &own); err != nil {
			return err
		}
		p, err := profile.New(profile.Options{
			Search: own.Search, Pinned: c.Pinned, Introduction: metatool.Introduction(own), Own: metatool.Items(own),
			Name: c.Name, Upstreams: c.Upstreams, Tags: c.Tags, Configured: configured,
			Select:      policy.Selection{Tools: publicGlobs(c.Tools), Resources: publicGlobs(c.Resources), Prompts: publicGlobs(c.Prompts)},
			Annotations: c.Annotations.Given(), Rules: rules,
			ShortNames: c.Names == config.NamesShort, Trim: trimOf(c.Trim), Instructions: c.Instructions,
		})
		if err != nil {
			return err
		}
		gen.addResultRules(&c, cfg.Results.TTL)
		if c.Name == config.DefaultProfile {
			gen.defaultProfile = p
		} else {
			gen.profiles = append(gen.profiles, &profileEntry{name: c.Name, profile: p})
		}
	}
	return nil
}

func publicGlobs(f config.PublicFilter) policy.Globs {
	return policy.Globs{Allow: f.Allow, Deny: f.Deny}
}

func trimOf(t config.Trim) profile.Trim {
	return profile.Trim{
		Description: t.Description, SchemaDescriptions: t.SchemaDescriptions,
		Examples: t.Examples == config.TrimDrop, Titles: t.Titles == config.TrimDrop, OutputSchema: t.OutputSchema == config.TrimDrop,
		Annotations: t.Annotations == config.TrimDrop, Icons: t.Icons == config.TrimDrop,
	}
}

// tagsOf returns the tags of items by their native names.
func tagsOf(overrides []config.Override) map[string][]string {
	tags := make(map[string][]string)
	for _, o := range overrides {
		if len(o.Tags) > 0 {
			tags[o.Native] = o.Tags
		}
	}
	return tags
}
