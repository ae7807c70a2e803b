package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/pins"
	"mcpgateway/internal/wire"
)

// pinOptions are the flags of `gateway pin`.
type pinOptions struct {
	runOptions
	dry     bool
	timeout time.Duration
}

func newPin() *cobra.Command {
	var o pinOptions
	cmd := &cobra.Command{
		Use:   "pin [UPSTREAM]",
		Short: "Accept the tools of an upstream as they are now",
		Long: "pin connects to the upstreams with pin: true, or to the one that is named, shows which\n" +
			"tools are new, changed or gone since their definitions were accepted, and accepts them.\n" +
			"A gateway that runs publishes them within seconds. Read the descriptions before: they\n" +
			"are what models are told. With --dry-run nothing is accepted.",
		Example: "  gateway pin --dry-run\n  gateway pin search",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{errors.New("pin takes the name of one upstream, or nothing for all with pin: true")}
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return o.upstreamNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.configFlag(cmd)
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "accept nothing")
	timeoutFlag(cmd, &o.timeout)
	return cmd
}

func (o *pinOptions) run(cmd *cobra.Command, args []string) error {
	cfg, source, err := o.load()
	if err != nil {
		return err
	}
	look := *cfg
	if look.Upstreams, err = pinnedOf(cfg, args); err != nil {
		return err
	}
	failed := false
	err = visitStarted(cmd, &look, source.File, o.timeout, func(_ context.Context, v *gateway.InProcess, _ *console.Screen) error {
		for _, u := range look.Upstreams {
			change, err := v.Pin(u.Name, o.dry)
			if err != nil {
				failed = true
				fmt.Fprintf(cmd.ErrOrStderr(), "gateway: %s: %s\n", u.Name, console.Line(err.Error()))
				continue
			}
			if err := o.print(cmd.OutOrStdout(), u.Name, change); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && failed {
		err = errTold
	}
	return err
}

// pinnedOf are the upstreams to look at, as if they were not pinned.
func pinnedOf(cfg *config.Config, args []string) ([]config.Upstream, error) {
	var found []config.Upstream
	for _, u := range cfg.Upstreams {
		if u.Pin && !u.Disabled && (len(args) == 0 || u.Name == args[0]) {
			u.Pin = false // a first list would be accepted before anybody has looked at it
			found = append(found, u)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(args) == 0 || len(cfg.Upstreams) == 0:
		return nil, usageError{errors.New("no upstream has pin: true; set it on those whose tools are to stay as they are accepted")}
	case !slices.Contains(namesOf(cfg), args[0]):
		return nil, usageError{fmt.Errorf("there is no upstream %q; there are %s", args[0], strings.Join(namesOf(cfg), ", "))}
	default:
		return nil, usageError{fmt.Errorf("the upstream %s is disabled, or has no pin: true; set it first", args[0])}
	}
}

// print says what accepting means, one tool a line.
func (o *pinOptions) print(out io.Writer, name string, c pins.Change) error {
	var b strings.Builder
	for _, of := range []struct {
		what  string
		tools []wire.Raw
	}{{"new", c.New}, {"changed", c.Changed}} {
		if c.FirstAccepted {
			break // all are new, and were not hidden
		}
		for _, raw := range of.tools {
			tool := wire.ValueOf(raw)
			fmt.Fprintf(&b, "  %s: %s: %s\n", of.what, console.Line(tool.Get("name").Str()), console.Cut(console.Line(tool.Get("description").Str()), maxAbout))
		}
	}
	for _, gone := range c.Gone {
		fmt.Fprintf(&b, "  gone: %s\n", console.Line(gone))
	}
	done := "accepted"
	switch {
	case o.dry:
		done = "not accepted (--dry-run)"
	case b.Len() == 0:
		done = "accepted before"
	}
	_, err := fmt.Fprintf(out, "%s: %s, %s\n%s", name, console.Count(c.Tools, "tool"), done, b.String())
	return err
}
