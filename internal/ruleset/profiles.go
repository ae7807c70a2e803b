package ruleset

import (
	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/metatool"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
	"mcpgateway/internal/router"
)

// addProfile compiles a profile, with the tools that its files define and its rules for results.
func (r *Rules) addProfile(c *config.Profile) error {
	id := endpoint.IDOf(c.Name)
	rules, err := policyRules(c.Policy.Rules)
	if err != nil {
		return err
	}
	own := metatool.Options{Search: c.Catalog == config.CatalogSearch, Split: c.Split, Results: c.MaxResult > 0}
	if err := r.addScripts(id, c, &own); err != nil {
		return err
	}
	var configured []profile.Upstream
	for _, u := range r.cfg.Upstreams {
		configured = append(configured, profile.Upstream{
			Name: u.Name, Tags: u.Tags, Tools: tagsOf(u.Tools.Override), Prompts: tagsOf(u.Prompts.Override),
		})
	}
	r.profiles[id], err = profile.New(profile.Options{
		Search: own.Search, Pinned: c.Pinned, Introduction: metatool.Introduction(own), Own: metatool.Items(own),
		Name: c.Name, Upstreams: c.Upstreams, Tags: c.Tags, Configured: configured,
		Select:      policy.Selection{Tools: publicGlobs(c.Tools), Resources: publicGlobs(c.Resources), Prompts: publicGlobs(c.Prompts)},
		Annotations: c.Annotations.Given(), Rules: rules,
		ShortNames: c.Names == config.NamesShort, Trim: trimOf(c.Trim), Instructions: c.Instructions,
	})
	if err != nil || c.MaxResult == 0 && c.Images.Max == 0 {
		return err
	}
	if r.Results == nil {
		r.Results = make(map[string]router.ResultRules)
	}
	r.Results[id] = router.ResultRules{
		Max: int(c.MaxResult), TTL: r.cfg.Results.TTL, CutStructured: c.StructuredContent == config.StructuredCut, ImageSide: c.Images.Max,
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
