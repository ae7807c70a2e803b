package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/hostconfig"
)

// connectOptions are the flags of `gateway connect` and `gateway disconnect`.
type connectOptions struct {
	runOptions        // only the file is used
	http       string // "" for a command
	name, at   string
	yes, print bool
	unlock     func() // lets others edit the file, nil before it is locked
}

func newConnect() *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use:   "connect [HOST]",
		Short: "Add the gateway to a host",
		Long: "connect adds the gateway to the list of servers of a host: " + hostNames() + ". " +
			"It shows the change, asks, and keeps a backup beside the file.\n" +
			"Everything else in the file stays as it is. The host starts \"gateway stdio\" with\n" +
			"your gateway.yaml, or with --http connects to a gateway that runs already. Without\n" +
			"HOST connect lists the hosts of this machine and whether they are connected.",
		Example: "  gateway connect\n  gateway connect claude-code\n  gateway connect cursor --http http://127.0.0.1:8080/mcp\n  gateway connect cursor --profile coding\n" +
			"  gateway connect claude-code --file .mcp.json --yes\n  gateway connect zed --print",
		ValidArgsFunction: completeHosts,
		Args:              hostArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return o.connect(cmd, args[0])
			}
			for _, flag := range []string{"config", "profile", "http", "file", "yes", "print"} {
				if f := cmd.Flags().Lookup(flag); f.Changed {
					value := ""
					if f.Value.Type() != "bool" {
						value = " " + shellWord(f.Value.String())
					}
					return usageError{fmt.Errorf("--%s is for the host to connect, and there is none: gateway connect HOST --%s%s; HOST is one of %s", flag, flag, value, hostNames())}
				}
			}
			return o.list(cmd)
		},
	}
	o.configFlag(cmd)
	o.profileFlag(cmd, "profile `NAME` that the host gets (default: default)")
	o.flags(cmd)
	cmd.Flags().StringVar(&o.http, "http", "", "`URL` of a running gateway, instead of a command that starts one")
	cmd.Flags().BoolVar(&o.print, "print", false, "print what belongs in the host's file, and write nothing")
	return cmd
}

func newDisconnect() *cobra.Command {
	var o connectOptions
	cmd := &cobra.Command{
		Use:   "disconnect HOST",
		Short: "Remove the gateway from a host",
		Long: "disconnect removes from the file of a host what connect has added, and nothing\n" +
			"else. It shows the change and asks. If nothing else has changed the file since,\n" +
			"it is then what it was before, to the byte.",
		Example:           "  gateway disconnect claude-code\n  gateway disconnect cursor --yes",
		ValidArgsFunction: completeHosts,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("disconnect needs a host: " + hostNames())}
			}
			return hostArg(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.disconnect(cmd, args[0]) },
	}
	o.flags(cmd)
	return cmd
}

// defaultEntryName is the name of the gateway in a host's list of servers.
const defaultEntryName = "gateway"

func (o *connectOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.name, "name", defaultEntryName, "`NAME` of the gateway in the host's list of servers")
	cmd.Flags().StringVar(&o.at, "file", "", "the host's `FILE`, if it is not at the usual place, such as one of a project")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

func hostNames() string { return strings.Join(hostconfig.Names(), ", ") }

func completeHosts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for _, h := range hostconfig.Hosts() {
		all = append(all, cobra.CompletionWithDesc(h.Name, h.Title))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

func hostArg(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes one host, not %q", cmd.CommandPath(), strings.Join(args, " "))}
	}
	if _, ok := hostconfig.Find(args[0]); !ok {
		return usageError{fmt.Errorf("unknown host %q; connect knows %s%s", args[0], hostNames(), didYouMean(args[0], hostconfig.Names()))}
	}
	return nil
}

// isUsual reports whether the file of a host is at the usual place, whose folder connect makes.
func (o *connectOptions) isUsual(h hostconfig.Host) bool {
	usual, err := h.File(machine())
	return o.at == "" || err == nil && absolute(o.at) == usual
}

// machine is this machine, as hosts see it.
func machine() hostconfig.Machine {
	home, _ := os.UserHomeDir() // the error means that there is none
	return hostconfig.Machine{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// read reads the file of a host. If nobody is asked, other commands wait with their edits of it until close is called.
func (o *connectOptions) read(cmd *cobra.Command, host string) (hostconfig.Host, *hostconfig.File, error) {
	h, _ := hostconfig.Find(host)
	name := o.at
	if name == "" {
		var err error
		if name, err = h.File(machine()); err != nil {
			return h, nil, err
		}
	}
	if o.yes {
		if err := o.lock(cmd, name); err != nil {
			return h, nil, err
		}
	}
	f, err := hostconfig.Read(name)
	if err != nil {
		err = configfile.Unreadable(name, err)
	}
	return h, f, err
}

func (o *connectOptions) connect(cmd *cobra.Command, host string) error {
	defer o.close()
	e, cfg, err := o.entry()
	if err != nil {
		return err
	}
	if cfg != nil {
		unsetHint(cmd.ErrOrStderr(), cfg)
		localHint(cmd.ErrOrStderr(), cfg)
	}
	h, f, err := o.read(cmd, host)
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.Folder()); errors.Is(err, fs.ErrNotExist) && !o.isUsual(h) && !o.print { // it may be mistyped
		return configfile.Unwritable(f.Name, err)
	}
	out := cmd.OutOrStdout()
	if o.print {
		e, authenticates := tryURL(cmd, e)
		text, err := h.Snippet(o.name, e)
		if err != nil {
			return err
		}
		folded(cmd.ErrOrStderr(), "This belongs in %s:\n", tilde(f.Name))
		_, err = out.Write(text)
		keyHint(cmd.ErrOrStderr(), h, e, authenticates)
		return err
	}
	c, err := o.change(h, f, e)
	if err != nil {
		return err
	}
	authenticates := unknown
	if !c.isNone(f) {
		var tried hostconfig.Entry
		tried, authenticates = tryURL(cmd, e)
		if tried.URL != e.URL {
			e = tried
			if c, err = o.change(h, f, e); err != nil {
				return err
			}
		}
	}
	if c.isNone(f) {
		folded(out, "%s is connected already: %s has %q. Nothing is changed.\n", h.Title, tilde(f.Name), o.name)
		return nil
	}
	if ok, err := o.confirm(cmd, h, f, c.after, "Write it?", e, c.had); !ok {
		return err
	}
	backup := ""
	switch _, err := os.Lstat(f.Backup()); {
	case c.keepBackup && err == nil:
		backup = " What it was without the gateway is still in " + filepath.Base(f.Backup()) + "."
	case c.keepBackup || !f.Exists:
	case c.without != nil:
		backup = " What it was without the gateway is in " + filepath.Base(f.Backup()) + "."
	default:
		backup = " What it was is in " + filepath.Base(f.Backup()) + "."
	}
	if err := c.write(f); err != nil {
		return configfile.Unwritable(f.Name, err)
	}
	o.close()
	folded(out, "%s is written.%s\n%s\n", tilde(f.Name), backup, h.ReloadOf(f.Name))
	if h.Look != "" {
		folded(out, "To check it: %s\n", h.Look)
	}
	keyHint(out, h, e, authenticates)
	o.othersHint(out, h, f, e, h.Others(c.after, o.name))
	if e.URL == "" && h.TakesURL() {
		o.urlHint(cmd, h, e.Args[2])
	}
	return nil
}

// place are the flags that name the entry, for a command to print.
func (o *connectOptions) place() string {
	flags := ""
	if o.name != defaultEntryName {
		flags = " --name " + shellWord(o.name)
	}
	if o.at != "" {
		flags += " --file " + shellWord(o.at)
	}
	return flags
}

func (o *connectOptions) disconnect(cmd *cobra.Command, host string) error {
	defer o.close()
	h, f, err := o.read(cmd, host)
	if err != nil {
		return err
	}
	before, err := f.Before()
	if err != nil {
		return configfile.Unreadable(f.Backup(), err)
	}
	after, err := h.Disconnect(f.Data, o.name, before)
	if errors.Is(err, hostconfig.ErrAbsent) {
		text := fmt.Sprintf("%s is not connected: %s has no server %q. Nothing is changed. %s", h.Title, tilde(f.Name), o.name, o.underOthers(cmd.Context(), h, f))
		folded(cmd.OutOrStdout(), "%s\n", strings.TrimSpace(text))
		return nil
	}
	if conflict, ok := errors.AsType[*hostconfig.Conflict](err); ok {
		return fmt.Errorf("%s: %w, and nothing shows that connect has added it. %s", f.Name, conflict, cmp.Or(o.underOthers(cmd.Context(), h, f), "Remove it by hand"))
	}
	if err != nil {
		return disconnecting(err, f)
	}
	e, _, err := h.Entry(f.Data, o.name, before)
	if err != nil {
		return err
	}
	if ok, err := o.confirm(cmd, h, f, after, "Remove it?", e); !ok {
		return err
	}
	without, err := h.Without(after, "", before)
	if err != nil {
		return disconnecting(err, f)
	}
	then, err := removed(f, after, without, before)
	if err != nil {
		return configfile.Unwritable(f.Name, err)
	}
	folded(cmd.OutOrStdout(), "The gateway is removed from %s.\n%s%s\n", tilde(f.Name), then, h.Reload)
	return nil
}

// removed writes the file of a host after the removal of an entry, and says what became of its backup, as lines. without is after
// without further entries of the gateway, which no backup has.
func removed(f *hostconfig.File, after, without, before []byte) (then string, err error) {
	backup := filepath.Base(f.Backup())
	_, absent := os.Lstat(f.Backup())
	switch {
	case string(after) == string(before):
		if then = fmt.Sprintf("The file is as it was before, and its backup %s is removed.\n", backup); absent != nil {
			then = "The file is removed too, since nothing else was in it.\n"
		}
		return then, f.Restore(before)
	case string(without) == string(after):
		if absent == nil {
			then = fmt.Sprintf("What the file was before connect is in %s, with every secret in it: delete that when you do not need it.\n", backup)
		}
		return then, f.Overwrite(after)
	case string(without) == string(before):
		if absent == nil {
			then = fmt.Sprintf("What it was without the gateway is still in %s.\n", backup)
		}
		return then, f.Overwrite(after)
	}
	return fmt.Sprintf("What it was without the gateway is in %s.\n", backup), f.ReplaceKeeping(after, without)
}

// connecting adds to an error of an edit the file and what to do.
func connecting(err error, h hostconfig.Host, f *hostconfig.File) error {
	if errors.Is(err, hostconfig.ErrForm) {
		err = fmt.Errorf("%w: write the entry of \"gateway connect %s --print\" into it by hand", err, h.Name)
	}
	return inFile(f.Name, err)
}

// disconnecting is connecting for a removal.
func disconnecting(err error, f *hostconfig.File) error {
	if errors.Is(err, hostconfig.ErrForm) {
		err = fmt.Errorf("%w: remove the entry by hand", err)
	}
	return inFile(f.Name, err)
}

// inFile adds to an error the file in which it is, and the place if it is known.
func inFile(name string, err error) error {
	if at, ok := errors.AsType[*hostconfig.SyntaxError](err); ok {
		return fmt.Errorf("%s:%d:%d: %s", name, at.Line, at.Col, at.Msg)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// entry is the entry to add. For a command it also returns the configuration that the command will use.
func (o *connectOptions) entry() (hostconfig.Entry, *config.Config, error) {
	if o.http != "" {
		u, err := url.Parse(o.http)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return hostconfig.Entry{}, nil, usageError{fmt.Errorf("--http %s: must be the URL of a gateway, such as http://127.0.0.1:8080/mcp", o.http)}
		}
		if o.file != "" {
			return hostconfig.Entry{}, nil, usageError{errors.New("--http and --config both name a gateway; give one of them")}
		}
		at, err := profileURL(o.http, u, o.profile)
		return hostconfig.Entry{URL: at}, nil, err
	}
	cfg, source, err := o.load()
	switch {
	case err != nil:
	case source.File == "":
		err = o.noFileError("there is no gateway.yaml here or in your configuration folder: make one with \"gateway init\", name one with -c FILE, or name a running gateway with --http URL")
	default:
		err = o.knownProfile(cfg)
	}
	if err != nil {
		return hostconfig.Entry{}, nil, err
	}
	file, err := filepath.Abs(source.File)
	if err != nil {
		return hostconfig.Entry{}, nil, err
	}
	self, err := ownPath()
	e := hostconfig.Stdio(self, file)
	if o.profile != "" {
		e.Args = append(e.Args, "--profile", o.profile)
	}
	return e, cfg, err
}

// profileURL is the URL of a profile of the gateway at a URL, which is u.
func profileURL(text string, u *url.URL, profile string) (string, error) {
	base, path := strings.TrimSuffix(u.Path, "/"), endpoint.PathOf(endpoint.IDOf(profile))
	if profile == "" || strings.HasSuffix(base, path) {
		return text, nil
	}
	before, ok := strings.CutSuffix(base, endpoint.Path)
	if !ok {
		return "", usageError{fmt.Errorf("--http %s: with --profile it must be the URL of /mcp, such as http://127.0.0.1:8080/mcp", text)}
	}
	at := *u
	at.Path = before + path
	return at.String(), nil
}

// ownPath is the absolute path of this program, by which it was started: the target of a link may have another name
// after an upgrade.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if inBuildCache(os.Args[0]) {
		return "", errGoRun
	}
	if started, err := exec.LookPath(os.Args[0]); err == nil {
		if started, err = filepath.Abs(started); err == nil && sameFile(started, self) {
			return started, nil
		}
	}
	return self, nil
}

// errGoRun is the error of an entry with the program that "go run" has made: a host could start it only for a while.
var errGoRun = errors.New("\"go run\" keeps its program for a while only, so no host can start it later: build one with \"go build -o gateway ./cmd/gateway\", and run that")

// inBuildCache reports whether "go run" has started a program: it is in Go's build cache, or in the temporary folder of
// a build.
func inBuildCache(path string) bool { return goRun.MatchString(filepath.ToSlash(path)) }

var goRun = regexp.MustCompile(`/go-build/|/go-build[0-9]+/b[0-9]+/exe/`)

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// hint writes a next step for a person at a terminal.
func hint(out io.Writer, text string) error {
	if !console.IsTerminal(out) {
		return nil
	}
	_, err := io.WriteString(out, text)
	return err
}

// tilde shortens a path below the home folder.
func tilde(path string) string {
	home := machine().Home
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && home != "" {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}
