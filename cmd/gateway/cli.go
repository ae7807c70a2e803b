package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/wire"
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
		fmt.Fprintln(stderr, errs) // file:line:col comes first, for editors
		return exitFailed
	}
	fmt.Fprintln(stderr, "gateway:", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	var opts runOptions
	root := &cobra.Command{
		Use:   "gateway",
		Short: "One MCP endpoint in front of many MCP servers",
		Long: "gateway serves one MCP endpoint in front of many MCP servers.\n\n" +
			"Without a verb it runs with ./gateway.yaml, or the gateway.yaml in your\n" +
			"configuration folder, or without both with built-in demo upstreams.",
		Args:          noArgs,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	opts.flags(root)
	root.AddCommand(newRun(), newStdio(), newCheck(), newList(), newCall(), newExplain(), newPin(), newImport(), newKey(), newLogin(), newHealth(), newVersion())
	root.PersistentPreRunE = checkFlags
	// The commands of cobra accept any word as a verb or a shell and print their help.
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			if found, _, err := root.Find(args); err != nil || found == root && len(args) > 0 {
				return usageError{fmt.Errorf("unknown verb %q", args[0])}
			}
			return nil
		}
	}
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil {
		shells.Args, shells.RunE = noArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// checkFlags refuses empty values of flags, for example from a shell variable that is not set, and
// negative durations. The verb would do something else than the user expects.
func checkFlags(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"config", "url", "listen", "admin-listen", "output", "args", "kind", "id"} {
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
	hint := ""
	if cmd.Flags().Lookup("config") != nil {
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
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.flags(cmd)
	return cmd
}

func newStdio() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Serve the program that started this one, on standard input and output",
		Long: "stdio serves one client on standard input and output, for hosts that can only\n" +
			"start commands. It ends when its input ends, and listens on no address: the keys\n" +
			"listen and admin have no effect. The log goes to standard error.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.runStdio(cmd) },
	}
	opts.configFlag(cmd)
	return cmd
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the supported revisions of the protocol",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), versionNow())
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// versioned is the output of version --json. Later versions add members, and never rename or remove
// one.
type versioned struct {
	Version   string   `json:"version"`
	Revisions []spoken `json:"revisions"` // the newest first
}

type spoken struct {
	Revision wire.Revision `json:"revision"`
	Era      string        `json:"era"`
}

func versionNow() versioned {
	v := versioned{Version: version()}
	for _, r := range append(wire.ModernRevisions(), wire.LegacyRevisions()...) {
		v.Revisions = append(v.Revisions, spoken{r, r.Era().String()})
	}
	return v
}

// versionText is the output of the verb version and of the flag.
func versionText() string {
	v := versionNow()
	out := "gateway " + v.Version + "\n"
	for _, r := range v.Revisions {
		out += fmt.Sprintf("  speaks %s (%s)\n", r.Revision, r.Era)
	}
	return out
}

// release is the version set by -ldflags "-X main.release=..." for a release or an image, which is built
// without the repository.
var release string

// version is the release, else the version of the module or the commit of the build.
func version() string {
	if release != "" {
		return release
	}
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// pseudoVersion has the form in which Go names a commit without a tag.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+.*)?$`)

// versionOf is the version of a build without a release: the tag of the module, else the commit, its day,
// and whether files were changed.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	vcs := make(map[string]string)
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	// Without a tag Go derives a version from the commit, which looks like a release. A downloaded module
	// has only that version.
	made := pseudoVersion.MatchString(info.Main.Version) && vcs["vcs.revision"] != ""
	if v := info.Main.Version; v != "" && v != "(devel)" && !made {
		return v
	}
	out := "devel"
	if r := vcs["vcs.revision"]; r != "" {
		out += "-" + r[:min(12, len(r))]
	}
	if at, err := time.Parse(time.RFC3339, vcs["vcs.time"]); err == nil {
		out += "-" + at.UTC().Format("20060102")
	}
	if vcs["vcs.modified"] == "true" {
		out += "-modified"
	}
	return out
}

// lookupEnv looks up variables for the expansion of configurations.
var lookupEnv = os.LookupEnv
