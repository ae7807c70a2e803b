package gateway

import (
	"mcpgateway/internal/config"
	"mcpgateway/internal/policy"
	"mcpgateway/internal/profile"
)

// addProfiles translates the profiles of a configuration.
func (gen *generation) addProfiles(cfg *config.Config) error {
	var configured []profile.Upstream
	for _, u := range cfg.Upstreams {
		configured = append(configured, profile.Upstream{Name: u.Name, Tags: u.Tags})
	}
	for _, c := range cfg.Profiles {
		p, err := profile.New(profile.Options{
			Name: c.Name, Upstreams: c.Upstreams, Tags: c.Tags, Configured: configured,
			Select: policy.Selection{Tools: publicGlobs(c.Tools), Resources: publicGlobs(c.Resources), Prompts: publicGlobs(c.Prompts)},
		})
		if err != nil {
			return err
		}
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
