package main

import (
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"mcpgateway/internal/call"
	"mcpgateway/internal/gateway"
)

// complete sets the completion of the values of a flag.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist, which is a bug
	}
}

// upstreamNames are the upstreams of the configuration, none if it has errors.
func (o *runOptions) upstreamNames() []string {
	cfg, _, err := o.load()
	if err != nil {
		return nil
	}
	return namesOf(cfg)
}

// loginNames are the upstreams of the configuration that one can log in to, none if it has errors.
func (o *runOptions) loginNames() []string {
	cfg, _, err := o.load()
	if err != nil {
		return nil
	}
	return gateway.LoginNames(cfg)
}

// completeLogin completes the one argument of verbs that are about grants.
func (o *runOptions) completeLogin(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.loginNames(), cobra.ShellCompDirectiveNoFileComp
}

// toolNames are the remembered tools of the upstreams, since completion must start nothing.
func (o *visitOptions) toolNames() []string {
	cfg, source, err := o.config(io.Discard)
	if err != nil || o.url != "" {
		return nil
	}
	g, err := gateway.New(gateway.Options{Config: cfg, Demo: source == "", Version: version(), Logger: zap.NewNop(), InProcess: true})
	if err != nil {
		return nil
	}
	defer g.Close()
	who, _, _, err := o.assumed(cfg)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range g.RememberedTable(who.Profile).View(who, nil).Usable(call.Tool) {
		names = append(names, e.Public)
	}
	return names
}
