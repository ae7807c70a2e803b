package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/advice"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// errReported is a failure that the verb has already reported.
var errReported = errors.New("failed")

// usageError marks an error as wrong usage of the command line.
type usageError struct{ error }

// run executes the command without ending the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	defer advice.SetConfigFlag("") // tests call run several times
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errReported) {
		return exitFailed
	}
	var errs config.Errors
	if errors.As(err, &errs) {
		folded(stderr, "%s\n", errs) // file:line:col comes first, for editors
		return exitFailed
	}
	folded(stderr, "gateway: %s\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// folded writes a message. On a terminal it breaks lines that are wider than the terminal between words; elsewhere
// programs may read them, and each stays one line.
func folded(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, console.Fold(fmt.Sprintf(format, args...), console.Columns(w))) // nobody is left to tell
}

func newRoot() *cobra.Command {
	var opts runOptions
	root := &cobra.Command{
		Use:   "gateway",
		Short: "One MCP endpoint in front of many MCP servers",
		Long: "gateway serves one MCP endpoint in front of many MCP servers.\n\n" +
			"Without a verb it runs with ./gateway.yaml, or the gateway.yaml in your\n" +
			"configuration folder, or without both with built-in demo upstreams.",
		Example:       "  gateway\n  gateway -c ~/mcp/gateway.yaml\n  gateway check\n  gateway connect claude-code\n  gateway status",
		Args:          noArgs,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetVersionTemplate(versionText())
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate(helpTemplate)
	root.SetFlagErrorFunc(unknownFlag)
	opts.flags(root)
	root.AddCommand(
		newRun(),
		newStdio(),
		newCheck(),
		newList(),
		newCall(),
		newExplain(),
		newPin(),
		newInit(),
		newAdd(),
		newRemove(),
		newImport(),
		newSchema(),
		newConnect(),
		newDisconnect(),
		newKey(),
		newLogin(),
		newLogout(),
		newGrants(),
		newStatus(),
		newReload(),
		newHealth(),
		newVersion(),
		newMan(),
	)
	root.PersistentPreRunE = checkFlags
	// The commands of cobra accept any word as a verb or a shell and print their help.
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Example = "  gateway help add\n  gateway help completion bash"
		help.Args = func(_ *cobra.Command, args []string) error {
			if found, _, err := root.Find(args); err != nil || found == root && len(args) > 0 {
				return usageError{fmt.Errorf("unknown verb %q%s", args[0], didYouMeanVerb(root, args[0]))}
			}
			return nil
		}
	}
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil {
		shells.Example = "  gateway completion bash > /etc/bash_completion.d/gateway\n  source <(gateway completion zsh)\n  gateway completion fish | source"
		for _, shell := range shells.Commands() {
			shell.Example = map[string]string{
				"bash":       "  source <(gateway completion bash)\n  gateway completion bash > /etc/bash_completion.d/gateway",
				"zsh":        "  source <(gateway completion zsh)",
				"fish":       "  gateway completion fish | source",
				"powershell": "  gateway completion powershell | Out-String | Invoke-Expression",
			}[shell.Name()]
		}
		shells.Args, shells.RunE = noArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// checkFlags refuses empty values of flags, for example from a shell variable that is not set, and
// negative durations. The verb would do something else than the user expects. Messages advise commands for the same configuration.
func checkFlags(cmd *cobra.Command, _ []string) error {
	file := ""
	if f := cmd.Flags().Lookup("config"); f != nil {
		file = f.Value.String()
	}
	advice.SetConfigFlag(withConfig(file))
	for _, name := range []string{"config", "url", "listen", "admin-listen", "log-level", "output", "args", "kind", "id", "http", "name", "file", "principal", "issuer", "token", "profile"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usageError{fmt.Errorf("--%s is empty: give it a value, or remove it", name)}
		}
	}
	for _, name := range []string{"timeout", "call-timeout"} {
		if d, err := cmd.Flags().GetDuration(name); err == nil && d < 0 { // the error means that the verb has no such flag
			return usageError{fmt.Errorf("--%s %s: must not be negative", name, d)}
		}
	}
	return nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := didYouMeanVerb(cmd, args[0])
	if hint == "" && cmd.Flags().Lookup("config") != nil {
		hint = fileHint(args[0])
	}
	return usageError{fmt.Errorf("unknown verb or argument %q for %q%s", args[0], cmd.CommandPath(), hint)}
}

// fileHint is advice for a configuration file given as an argument.
func fileHint(arg string) string {
	if slices.Contains(configExtensions, strings.TrimPrefix(filepath.Ext(arg), ".")) {
		return "; for a configuration write -c " + arg
	}
	return ""
}

// configExtensions are the extensions of configuration files.
var configExtensions = []string{"yaml", "yml", "json", "jsonc"}

func newRun() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve",
		Long: "run serves MCP on listen, and health and metrics on admin.listen, until it gets\n" +
			"SIGINT or SIGTERM. Then calls have drain_timeout to end. It reads its file again\n" +
			"when the file changes, on SIGHUP and with \"gateway reload\".",
		Example: "  gateway run\n  gateway run -c ~/mcp/gateway.yaml --listen 127.0.0.1:9000",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.flags(cmd)
	return cmd
}

func newStdio() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Serve a host that starts commands, on standard input and output",
		Long: "stdio serves one client on standard input and output, for hosts that can only\n" +
			"start commands. The client needs no credentials: it is the principal local, and the\n" +
			"policy decides what it may use, as for all others. stdio ends when its input ends,\n" +
			"and listens on no address: the keys listen and admin have no effect. The log goes\n" +
			"to standard error, and has warnings alone unless --log-level or telemetry.log.level\n" +
			"says otherwise.",
		Example: "  gateway stdio -c /home/me/mcp/gateway.yaml\n  gateway stdio --profile coding\n  gateway connect claude-desktop    # makes a host start this command",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return opts.runStdio(cmd) },
	}
	opts.configFlag(cmd)
	opts.profileFlag(cmd, "profile `NAME` that the host gets (default: default)")
	opts.logFlag(cmd)
	return cmd
}

// lookupEnv looks up variables for the expansion of configurations.
var lookupEnv = os.LookupEnv
