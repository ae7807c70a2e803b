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

// errTold is a failure that the verb has told already.
var errTold = errors.New("failed")

// usageError marks an error as wrong usage of the command line.
type usageError struct{ error }

// run is the command without the process around it.
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
	if errors.Is(err, errTold) {
		return exitFailed
	}
	var faults config.Errors
	if errors.As(err, &faults) {
		fmt.Fprintln(stderr, faults) // file:line:col comes first, for editors
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
			"Without a verb it runs, with ./gateway.yaml or the file in the user's configuration\n" +
			"folder; with neither it serves built-in demo upstreams.",
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
	root.PersistentPreRunE = given
	// cobra's own take any word for a verb, or a shell, and print their help.
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

// given refuses flags that are there without a value, as of a variable of a shell that
// is not set, where something else would be done than was meant; and times that were
// over before they began.
func given(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"config", "url", "listen", "admin-listen", "output", "args", "kind", "id"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return usageError{fmt.Errorf("--%s is empty: give it a value, or leave it out", name)}
		}
	}
	for _, name := range []string{"timeout", "call-timeout"} {
		if d, err := cmd.Flags().GetDuration(name); err == nil && d < 0 { // an error where the verb has none
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

// fileHint is for who gives a configuration as an argument.
func fileHint(arg string) string {
	if slices.Contains(configExtensions, strings.TrimPrefix(filepath.Ext(arg), ".")) {
		return "; for a configuration write -c " + arg
	}
	return ""
}

// configExtensions are what names of configurations end in.
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
		Long: "stdio serves what run serves to one client, on standard input and output, for hosts\n" +
			"that can only start commands. It ends when its input does, and listens nowhere:\n" +
			"the keys listen and admin have no effect. The log goes to standard error.",
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
		Short: "Print the version and the revisions of the protocol that are spoken",
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

// versioned is what version --json prints. Members are added in later versions,
// never renamed or removed.
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

// versionText is what the verb version and the flag print.
func versionText() string {
	v := versionNow()
	out := "gateway " + v.Version + "\n"
	for _, r := range v.Revisions {
		out += fmt.Sprintf("  speaks %s (%s)\n", r.Revision, r.Era)
	}
	return out
}

// release is the version that whoever builds a release or an image gives, with
// -ldflags "-X main.release=...": an image is built without the repository.
var release string

// version is the release, or that of the module or the commit that the binary
// was built from.
func version() string {
	if release != "" {
		return release
	}
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// pseudoVersion has the form in which Go names a commit without a tag.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+.*)?$`)

// versionOf is the version of a build that is no release: the tag that the module has,
// else commit and day of what was built, and whether files were changed since.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	vcs := make(map[string]string)
	for _, s := range info.Settings {
		vcs[s.Key] = s.Value
	}
	// Go makes a version of the commit where there is no tag, which reads like one of a
	// release; a module that was downloaded has nothing else.
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

// lookupEnv is the environment that configurations are expanded with.
var lookupEnv = os.LookupEnv
