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

	"mcpgateway/internal/advice"
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
		Use:   "pin [UPSTREAM [TOOL...]]",
		Short: "Accept the current tools of an upstream",
		Long: "pin connects to the upstreams with pin: true, or to the named one, shows which\n" +
			"tools are new, changed or gone since their definitions were accepted, and accepts\n" +
			"them. After the upstream you can name the tools to accept, as the upstream names\n" +
			"them. A definition that a person has refused in the console is accepted only if\n" +
			"you name its tool. A running gateway publishes them within seconds. Read the\n" +
			"descriptions first, since models read them. With --dry-run nothing is accepted.",
		Example: "  gateway pin --dry-run\n  gateway pin search\n  gateway pin search web_search",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
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
	cfg, source, err := o.loadSaying(cmd.ErrOrStderr())
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
			only := args[min(1, len(args)):]
			change, err := v.Pin(u.Name, only, o.dry)
			if err != nil {
				failed = true
				near := ""
				if unknown, ok := errors.AsType[*pins.UnknownToolError](err); ok {
					near = didYouMean(unknown.Name, unknown.Listed)
				}
				folded(cmd.ErrOrStderr(), "gateway: %s: %s%s\n", u.Name, console.Line(err.Error()), console.Line(near))
				continue
			}
			if err := o.print(cmd.OutOrStdout(), u.Name, change); err != nil {
				return err
			}
			if len(change.Refused) > 0 && len(only) == 0 {
				folded(cmd.ErrOrStderr(), "gateway: %s: a person has refused %s; accept a refused one after all with gateway pin %[1]s TOOL%[3]s\n",
					u.Name, console.Count(len(change.Refused), "definition"), advice.ConfigFlag())
			}
		}
		return nil
	})
	if err == nil && failed {
		err = errReported
	}
	return err
}

// pinnedOf are the upstreams to visit, without their pins.
func pinnedOf(cfg *config.Config, args []string) ([]config.Upstream, error) {
	var found []config.Upstream
	for _, u := range cfg.Upstreams {
		if u.Pin && !u.Disabled && (len(args) == 0 || u.Name == args[0]) {
			u.Pin = false // else a first list would be accepted before the user has seen it
			u.Start, u.IdleStop = config.StartEager, 0
			found = append(found, u)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(args) == 0 || len(cfg.Upstreams) == 0:
		return nil, usageError{errors.New("no upstream has pin: true; set it for upstreams whose tools must not change unnoticed")}
	case !slices.Contains(namesOf(cfg), args[0]):
		return nil, usageError{fmt.Errorf("there is no upstream %q; there are %s", args[0], strings.Join(namesOf(cfg), ", "))}
	case slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == args[0] && u.Disabled }):
		return nil, usageError{fmt.Errorf("the upstream %s has disabled: true; remove that first", args[0])}
	default:
		return nil, usageError{fmt.Errorf("the upstream %s has no pin: true; set it first", args[0])}
	}
}

// print lists the changes, with one tool on each line.
func (o *pinOptions) print(out io.Writer, name string, c pins.Change) error {
	var b strings.Builder
	list := func(what string, tools []wire.Raw) {
		for _, raw := range tools {
			tool := wire.ValueOf(raw)
			fmt.Fprintf(&b, "  %s: %s: %s\n", what, console.Line(tool.Get("name").Str()), console.Cut(console.Line(tool.Get("description").Str()), maxAbout))
		}
	}
	if !c.FirstAccepted { // else all tools are new, and none was hidden
		list("new", c.New)
		list("changed", c.Changed)
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
	if n := len(c.Refused); n > 0 && !o.dry {
		done += fmt.Sprintf(" except %d refused", n)
	}
	list("refused", c.Refused)
	_, err := fmt.Fprintf(out, "%s: %s, %s\n%s", name, console.Count(c.Tools, "tool"), done, b.String())
	return err
}
