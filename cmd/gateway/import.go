package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/hostimport"
)

// importOptions are the flags of `gateway import`.
type importOptions struct {
	runOptions // only the file is used
	merge      bool

	out   string
	env   string
	force bool
}

func newImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import [FILE…]",
		Short: "Make a gateway.yaml of hosts' configurations",
		Long: "import reads the configurations of hosts (Claude Desktop, Claude Code, Cursor,\n" +
			"VS Code, Windsurf, Zed, Gemini CLI, Codex, Goose, opencode, Continue, any mcp.json)\n" +
			"and prints a gateway.yaml with all their servers. Without FILE it reads the hosts'\n" +
			"files on this machine and in this folder. With --merge it adds the servers to the\n" +
			"gateway.yaml that run would use, and keeps everything else in that file.\n\n" +
			"Every value of env and headers becomes ${NAME}, and so does a secret in an\n" +
			"argument or URL that is recognized by the name of its flag or by its prefix.\n" +
			"Everything else is copied: look through the file before you share it. --env writes\n" +
			"the values that were moved to a file, and --merge adds them to the env_file.\n" +
			"Standard error lists the variables to set and what was changed or left out.",
		Example: "  gateway import -o gateway.yaml --env gateway.env\n  gateway import --merge\n" +
			"  gateway import ~/.claude.json .vscode/mcp.json -o gateway.yaml",
		Args: func(*cobra.Command, []string) error {
			switch {
			case o.out != "" && o.env != "" && filepath.Clean(o.out) == filepath.Clean(o.env):
				return usageError{errors.New("-o and --env name the same file; give --env a file of its own")}
			case o.merge && (o.out != "" || o.env != "" || o.force):
				return usageError{errors.New("--merge writes the gateway.yaml that run would use and its env_file: remove -o, --env and --force, and name another gateway.yaml with -c")}
			case !o.merge && o.file != "":
				return usageError{errors.New("-c is for --merge; name the file to write with -o")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().StringVarP(&o.out, "output", "o", "", "`FILE` to write, instead of standard output")
	cmd.Flags().StringVar(&o.env, "env", "", "`FILE` for the values that were moved, to load in a shell")
	cmd.Flags().BoolVar(&o.merge, "merge", false, "add the servers to an existing gateway.yaml")
	o.editFlag(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "replace files that exist")
	return cmd
}

func (o *importOptions) run(cmd *cobra.Command, args []string) error {
	if o.merge {
		e, err := o.edit(cmd.Context())
		if err != nil {
			return err
		}
		defer e.close()
		files, err := o.files(cmd.ErrOrStderr(), args, servedFor(cmd.Context(), e.name))
		if err != nil {
			return err
		}
		n, err := e.merge(cmd, files)
		if n > 0 {
			out := cmd.OutOrStdout()
			fmt.Fprintln(out, brokenCommand(console.Columns(out), "Next: gateway check", withConfig(o.file)))
		}
		return err
	}
	served := servedFor(cmd.Context(), o.out)
	files, err := o.files(cmd.ErrOrStderr(), args, served)
	if err != nil {
		return err
	}
	opts := hostimport.Options{Program: programName(), Served: served}
	if o.out != "" && o.env != "" {
		opts.EnvFile, opts.Taken = relativeTo(filepath.Dir(o.out), o.env), func(variable string, _ bool, _ string) bool { return isSet(variable) }
	}
	im, err := opts.Import(files...)
	if err != nil {
		return err
	}
	if moved := func(v hostimport.Variable) bool { return v.Moved }; o.env != "" && !slices.ContainsFunc(im.Variables, moved) {
		folded(cmd.ErrOrStderr(), "No value had to be moved, so %s is not written.\n", o.env)
		o.env, opts.EnvFile = "", ""
		if im, err = opts.Import(files...); err != nil {
			return err
		}
	}
	outputs := []output{{o.out, "-o", 0o644, im.YAML}, {o.env, "--env", 0o600, []byte(im.Env.Reveal())}}
	for _, f := range outputs { // refuse before anything is written
		if _, err := os.Lstat(f.name); err == nil && !o.force {
			return f.exists()
		}
	}
	for _, f := range outputs {
		if f.name == "" {
			continue
		}
		if err := f.write(o.force); err != nil {
			return err
		}
	}
	if o.out == "" {
		if _, err := cmd.OutOrStdout().Write(im.YAML); err != nil {
			return err
		}
	}
	o.tell(cmd.ErrOrStderr(), im)
	return nil
}

// files reads the files of the arguments, or of the hosts of this machine.
func (o *importOptions) files(stderr io.Writer, args []string, served servedFunc) ([]hostimport.File, error) {
	if len(args) == 0 {
		files := readHostFiles(stderr, served)
		if len(files) == 0 {
			return nil, errors.New("no host on this machine has servers; name the file of a host, such as ~/.claude.json or .vscode/mcp.json")
		}
		return files, nil
	}
	var files []hostimport.File
	for _, name := range args {
		f, err := hostFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// relativeTo is a path for a configuration in a folder.
func relativeTo(folder, name string) string {
	from, err := filepath.Abs(folder)
	to, err2 := filepath.Abs(name)
	if err == nil && err2 == nil {
		if rel, err := filepath.Rel(from, to); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
		return to
	}
	return name
}

// hostFile reads a file, and determines its folder.
func hostFile(name string) (hostimport.File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return hostimport.File{}, configfile.Unreadable(name, err)
	}
	full, err := filepath.Abs(name)
	return hostimport.File{Name: name, Data: data, Folder: filepath.Dir(full), Gateway: connectedTo(name, data)}, err
}

// connectedTo returns the entry with a URL that connect has written into the file of a host, the zero Gateway if there is none. Which
// host has the file is not known from its name.
func connectedTo(name string, data []byte) hostimport.Gateway {
	f := hostconfig.File{Name: name}
	before, _ := f.Before() // without it less is recognized
	for _, h := range hostconfig.Hosts() {
		if e, _, err := h.Entry(data, defaultEntryName, before); err == nil && e.URL != "" {
			return hostimport.Gateway{Name: defaultEntryName, URL: e.URL}
		}
	}
	return hostimport.Gateway{}
}

// output is a file to write, with the flag that named it; without a name it is not written.
type output struct {
	name, flag string
	mode       fs.FileMode
	data       []byte
}

func (f output) exists() error {
	return &existsError{fmt.Sprintf("%s exists already; choose another file with %s, or replace it with --force", f.name, f.flag)}
}

// existsError is the error of a file that exists and is not replaced.
type existsError struct{ text string }

func (e *existsError) Error() string { return e.text }
func (e *existsError) Unwrap() error { return fs.ErrExist }

// write replaces an existing file only if force is set.
func (f output) write(force bool) error {
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(f.name, how, f.mode)
	if errors.Is(err, fs.ErrExist) {
		return f.exists()
	}
	if err != nil {
		return configfile.Unwritable(f.name, err)
	}
	if f.mode&0o077 == 0 { // an existing file keeps its mode otherwise
		err = file.Chmod(f.mode)
	}
	if err == nil {
		_, err = file.Write(f.data)
	}
	return errors.Join(err, file.Close())
}

// tell prints the warnings and the next steps.
func (o *importOptions) tell(stderr io.Writer, im *hostimport.Result) {
	for _, r := range im.Warnings {
		folded(stderr, "%s\n", r)
	}
	fmt.Fprintf(stderr, "%s imported.\n", console.Count(im.Upstreams, "upstream"))
	unset := im.Variables
	if o.env != "" {
		if o.out != "" {
			folded(stderr, "\n%s has the values that were moved, and %s names it as env_file.\n", o.env, o.out)
		} else {
			folded(stderr, "\n%s has the values that were moved; load them with: set -a; . %s; set +a\n", o.env, shellPath(o.env))
		}
		unset = slices.DeleteFunc(slices.Clone(unset), func(v hostimport.Variable) bool { return v.Moved })
	}
	if len(unset) > 0 {
		if o.env != "" {
			folded(stderr, "\nSet these variables before you continue, in the environment or in %s:\n\n", o.env)
		} else {
			fmt.Fprintf(stderr, "\nSet these environment variables before you continue:\n\n")
		}
		width := 0
		for _, v := range unset {
			width = max(width, len(v.Name))
		}
		for _, v := range unset {
			folded(stderr, "  %s\n", strings.TrimRight(fmt.Sprintf("%-*s   %s", width, v.Name, variableSource(v)), " "))
		}
		fmt.Fprintln(stderr)
	}
	if o.out == "" {
		folded(stderr, "No configuration is written: name a new file with -o, or add the servers to your gateway.yaml with --merge.\n")
		return
	}
	if cfg, err := config.Load(o.out, lookupEnv); err == nil { // check reports errors
		var names []string
		for _, s := range im.Servers {
			names = append(names, s.Name)
		}
		tellMissingFiles(stderr, cfg, names)
	}
	fmt.Fprintln(stderr, brokenCommand(console.Columns(stderr), "Then: gateway check", " -c "+shellWord(o.out)))
}

// withConfig is the flag of a command that names a configuration, "" for the one that run would use.
func withConfig(file string) string {
	if file == "" || sameFile(file, new(runOptions).configPath()) {
		return ""
	}
	return " -c " + shellWord(file)
}

// shellPath is a path for the command . of a shell, which searches a name without a slash in the PATH.
func shellPath(name string) string {
	if !strings.ContainsRune(name, '/') {
		name = "./" + name
	}
	return shellWord(name)
}

// shellWord quotes a word for a shell if that is necessary.
func shellWord(word string) string {
	if strings.ContainsAny(word, " \t\n'\"\\$`&;|<>()*?[!#") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// variableSource describes the value of a variable and its place in the file of the host.
func variableSource(v hostimport.Variable) string {
	about := v.Note
	switch {
	case v.Moved && about != "":
		about += ", "
		fallthrough
	case v.Moved:
		about += "now at " + v.Uses[0]
	case about == "" && len(v.Uses) > 0:
		about = "for " + v.Uses[0]
	}
	return strings.ReplaceAll(about, "\n", " ")
}
