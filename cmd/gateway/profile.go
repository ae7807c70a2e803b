package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/endpoint"
)

// profileFlag adds --profile. usage says what the profile is for; NAME in it is the value.
func (o *runOptions) profileFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.profile, "profile", "", usage)
	complete(cmd, "profile", func() []string {
		cfg, _, err := o.load()
		if err != nil {
			return nil
		}
		return endpointNames(cfg)
	})
}

// endpointNames are the names of the profiles that a configuration serves.
func endpointNames(cfg *config.Config) []string {
	names := []string{endpoint.Default}
	for _, p := range cfg.Profiles {
		if p.Name != endpoint.Default {
			names = append(names, p.Name)
		}
	}
	return names
}

// knownProfile reports a profile that the configuration does not have.
func (o *runOptions) knownProfile(cfg *config.Config) error {
	names := endpointNames(cfg)
	if o.profile == "" || slices.Contains(names, o.profile) {
		return nil
	}
	hint := didYouMean(o.profile, names)
	if len(names) == 1 {
		return usageError{fmt.Errorf("--profile %s: no such profile; the configuration has no profiles, add one under profiles", o.profile)}
	}
	return usageError{fmt.Errorf("--profile %s: no such profile; there are %s%s", o.profile, strings.Join(names, ", "), hint)}
}
