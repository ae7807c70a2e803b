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
			"server of an upstream that has auth: {kind: user}. The browser comes back to a port\n" +
			"of this machine, and the grant is kept, encrypted, in state_dir, where a gateway\n" +
			"with this configuration finds it, also one that runs. With auth.mode none it is the\n" +
			"grant of everybody who calls; else the gateway gathers lists with it.",
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
				fmt.Fprintf(out, "Open this URL in a browser and log in:\n\n  %s\n\nWaiting for the browser to come back (Ctrl-C ends it) …\n", url)
			})
			if ctx.Err() != nil {
				return errors.New("the login was broken off, and nothing is granted")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "Access to %s is granted.\n", args[0])
			return err
		},
	}
	opts.configFlag(cmd)
	cmd.Flags().IntVar(&port, "port", 0, "`PORT` on loopback that the browser comes back to, for clients that are registered with one redirect URI, http://127.0.0.1:PORT/callback (default: any)")
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
