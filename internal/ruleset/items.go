package ruleset

import (
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/config"
	"mcpgateway/internal/conform"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/sanitize"
)

// Items returns the rules for the items and answers of an upstream.
func Items(u config.Upstream) catalog.Rules {
	r := catalog.Rules{
		Conformance: map[config.Conformance]conform.Mode{
			config.ConformanceOff: conform.Off, config.ConformanceWarn: conform.Warn,
			config.ConformanceRepair: conform.Repair, config.ConformanceStrict: conform.Strict,
		}[u.Conformance],
		ValidateInput:  u.ValidateInput,
		ToolOverride:   overrides(u.Tools.Override),
		PromptOverride: overrides(u.Prompts.Override),
		Tags:           u.Tags,
	}
	for _, what := range u.Sanitize {
		r.Sanitize |= map[string]sanitize.Classes{
			config.SanitizeANSI: sanitize.ANSI, config.SanitizeControl: sanitize.Control, config.SanitizeInvisible: sanitize.Invisible,
		}[what]
	}
	return r
}

func overrides(list []config.Override) map[string]catalog.Override {
	out := make(map[string]catalog.Override, len(list))
	for _, o := range list {
		out[o.Native] = catalog.Override{Name: o.Name, Title: o.Title, Description: o.Description, Hidden: o.Hidden, Annotations: o.Annotations.Given(), Tags: o.Tags}
	}
	return out
}

func filterOf(u config.Upstream) policy.Upstream {
	globs := func(f config.Filter) policy.Globs { return policy.Globs{Allow: f.Allow, Deny: f.Deny} }
	return policy.Upstream{Tools: globs(u.Tools.Filter), Prompts: globs(u.Prompts.Filter), Resources: globs(u.Resources)}
}
