package ruleset

import (
	"cmp"
	"fmt"

	"mcpgateway/internal/config"
	"mcpgateway/internal/policy"
)

// CheckConditions makes loading a configuration check the conditions of its rules.
func CheckConditions() config.Option {
	return config.WithConditions(func(c config.Condition) []config.Finding {
		var found []config.Finding
		for _, f := range policy.Check(c.Text, c.Tools, c.Resources, c.Prompts) {
			found = append(found, config.Finding(f))
		}
		return found
	})
}

// newPolicy translates the policy of a configuration. Errors about rules are config.Errors.
// A configuration that was loaded with [CheckConditions] has none.
func newPolicy(cfg *config.Config) (*policy.Policy, error) {
	fallback, err := policy.ParseEffect(string(cfg.Policy.Default))
	if err != nil {
		return nil, fmt.Errorf("policy.default: %w", err)
	}
	o := policy.Options{Default: fallback, Upstreams: map[string]policy.Upstream{}}
	for _, u := range cfg.Upstreams {
		o.Upstreams[u.Name] = filterOf(u)
	}
	if o.Rules, err = policyRules(cfg.Policy.Rules); err != nil {
		return nil, err
	}
	return policy.New(o)
}

// policyRules translates rules. The error is a config.Errors.
func policyRules(rules []config.Rule) ([]policy.Rule, error) {
	var out []policy.Rule
	var errs config.Errors
	for _, r := range rules {
		effect, err := policy.ParseEffect(string(r.Effect))
		if err != nil {
			errs = append(errs, &config.Error{File: r.File, Line: r.Pos.Line, Col: r.Pos.Col, Path: r.Name + ".effect", Msg: err.Error()})
		}
		rule := policy.Rule{
			Name: r.Name, Effect: effect, Challenge: r.Challenge, File: r.File, Line: r.Pos.Line,
			Who:   policy.Who{Subjects: r.Who.Subjects, Groups: r.Who.Groups, Scopes: r.Who.Scopes, Issuers: r.Who.Issuers},
			What:  policy.What{Tools: r.What.Tools, Resources: r.What.Resources, Prompts: r.What.Prompts, Upstreams: r.What.Upstreams, Admin: r.What.Admin},
			Limit: limitOf(r.Limit),
		}
		if r.When != "" {
			condition, wrong := policy.NewCondition(r.When)
			for _, f := range wrong {
				errs = append(errs, &config.Error{File: r.File, Line: r.Pos.Line, Col: r.Pos.Col, Path: r.Name + ".when", Msg: f.Msg})
			}
			rule.When = condition
		}
		out = append(out, rule)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

func limitOf(l config.Limit) *policy.Limit {
	if l.Rate == "" && l.Concurrent == 0 {
		return nil
	}
	per := map[config.LimitPer]policy.Per{
		config.PerPrincipal: policy.PerPrincipal, config.PerRule: policy.PerRule,
		config.PerUpstream: policy.PerUpstream, config.PerTool: policy.PerTool,
	}[l.Per]
	return &policy.Limit{Rate: l.Rate.PerSecond(), Unit: l.Rate.Unit(), Burst: cmp.Or(l.Burst, l.Rate.Count()), Concurrent: l.Concurrent, Per: per}
}
