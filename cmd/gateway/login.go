package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
)

func newLogin() *cobra.Command {
	var opts runOptions
	var port int
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "login UPSTREAM",
		Short: "Grant the gateway access to an upstream in your name",
		Long: "login opens a page in your browser, where you log in at the authorization server\n" +
			"of an upstream with auth: {kind: user}, and prints its URL. The browser returns\n" +
			"to a port of this machine. The encrypted grant is stored in state_dir, or in the\n" +
			"store of replicas; gateways with this configuration use it, even if they already\n" +
			"run. With auth.mode none the grant is used for all calls; else the gateway uses\n" +
			"it to gather lists.\n" +
			"gateway grants lists grants, gateway logout removes one.",
		Example: "  gateway login tickets\n  gateway login tickets --no-browser --port 8765",
		Args: func(cmd *cobra.Command, args []string) error {
			err := oneArg("UPSTREAM")(cmd, args)
			if names := opts.loginNames(); err != nil && len(args) == 0 && len(names) > 0 {
				return usageError{fmt.Errorf("%w; you can log in to %s", err, strings.Join(names, ", "))}
			}
			return err
		},
		ValidArgsFunction: opts.completeLogin,
		RunE: func(cmd *cobra.Command, args []string) error {
			if port < 0 || port > 65535 {
				return usageError{fmt.Errorf("--port must be a port, or 0 for any")}
			}
			cfg, _, err := opts.loadSaying(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := cmd.OutOrStdout()
			err = gateway.Login(ctx, cfg, args[0], port, func(url string) {
				what := "Open this URL in a browser and log in:"
				if !noBrowser && console.IsTerminal(out) && openBrowser(ctx, url) {
					what = "Log in on the page that your browser opens, or open this URL:"
				}
				fmt.Fprintf(out, "%s\n\n  %s\n\nWaiting for the browser to return (Ctrl-C cancels) …\n", what, url)
			})
			if err != nil && ctx.Err() != nil {
				return errors.New("the login was canceled, and nothing has changed")
			}
			with := withConfig(opts.file)
			switch {
			case errors.Is(err, syscall.ECONNREFUSED):
				return fmt.Errorf("%w; start that server or correct its URL, then run gateway login %s%s again", err, args[0], with)
			case err != nil:
				return err
			}
			folded(out, "Access to %s is granted. A running gateway uses it within a few seconds.\n", args[0])
			if others := callersGrant(cfg); others != "" {
				folded(out, "%sNext: gateway list tools%s --as SUBJECT shows which of its tools a caller sees.\n", others, with)
			} else {
				folded(out, "Next: gateway list tools%s shows its tools, gateway call NAME%s calls one.\n", with, with)
			}
			return nil
		},
	}
	opts.configFlag(cmd)
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the URL")
	cmd.Flags().IntVar(&port, "port", 0, "loopback `PORT` that the browser returns to, for clients registered with the redirect URI http://127.0.0.1:PORT/callback (default: any)")
	return cmd
}

// callersGrant says whom the grant of gateway login does not serve, "" if it serves all.
func callersGrant(cfg *config.Config) string {
	if cfg.Auth.Has(config.AuthNone) {
		return ""
	}
	return "Callers must authenticate (auth.mode), and each grants for itself, on a page that its first call names: this grant serves lists, and gateway stdio.\n"
}

// oneArg demands one argument.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("%s needs one argument, %s, and got %d", cmd.CommandPath(), name, len(args))}
		}
		return nil
	}
}
