package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"mcpgateway/internal/gateway"
)

func newLogin() *cobra.Command {
	var opts runOptions
	var port int
	cmd := &cobra.Command{
		Use:   "login UPSTREAM",
		Short: "Grant the gateway access to an upstream in your name",
		Long: "login prints a URL to open in a browser, where you log in at the authorization\n" +
			"server of an upstream with auth: {kind: user}. The browser returns to a port of\n" +
			"this machine. The encrypted grant is stored in state_dir; a gateway with this\n" +
			"configuration uses it, even if it already runs. With auth.mode none the grant is\n" +
			"used for all calls; else the gateway uses it to gather lists.",
		Args: oneArg("UPSTREAM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if port < 0 || port > 65535 {
				return usageError{fmt.Errorf("--port must be a port, or 0 for any")}
			}
			cfg, _, err := opts.load()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := cmd.OutOrStdout()
			err = gateway.Login(ctx, cfg, args[0], port, func(url string) {
				fmt.Fprintf(out, "Open this URL in a browser and log in:\n\n  %s\n\nWaiting for the browser to return (Ctrl-C cancels) …\n", url)
			})
			if ctx.Err() != nil {
				return errors.New("the login was canceled, and no access is granted")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "Access to %s is granted.\n", args[0])
			return err
		},
	}
	opts.configFlag(cmd)
	cmd.Flags().IntVar(&port, "port", 0, "loopback `PORT` that the browser returns to, for clients registered with the redirect URI http://127.0.0.1:PORT/callback (default: any)")
	return cmd
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
