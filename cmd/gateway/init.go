package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/hostconfig"
	"mcpgateway/internal/hostimport"
)

// initOptions are the flags of `gateway init`.
type initOptions struct {
	take, leave, force bool
}

func newInit() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a new gateway.yaml",
		Long: "init writes a gateway.yaml with comments, and beside it the JSON Schema with which\n" +
			"editors complete it. It looks for the servers of the hosts on this machine (Claude\n" +
			"Desktop, Claude Code, Cursor, VS Code, Windsurf, Zed, Codex, Gemini CLI, Goose …)\n" +
			"and asks whether to import them. The files of hosts are not changed.",
		Example: "  gateway init\n  gateway init ~/mcp/gateway.yaml --import",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError{fmt.Errorf("init takes one file, not %s", strings.Join(args, " "))}
			case len(args) == 1 && args[0] == "":
				return usageError{errors.New("the name of the file is empty")}
			case len(args) == 1 && strings.ToLower(filepath.Ext(args[0])) != ".yaml" && strings.ToLower(filepath.Ext(args[0])) != ".yml":
				return usageError{fmt.Errorf("%s: the name must end with .yaml", args[0])}
			case o.take && o.leave:
				return usageError{errors.New("--import and --no-import contradict each other")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "gateway.yaml"
			if len(args) == 1 {
				name = args[0]
			}
			return o.run(cmd, name)
		},
	}
	cmd.Flags().BoolVar(&o.take, "import", false, "import the servers of all hosts, without asking")
	cmd.Flags().BoolVar(&o.leave, "no-import", false, "import nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a file that exists")
	return cmd
}

func (o *initOptions) run(cmd *cobra.Command, name string) error {
	if _, err := os.Lstat(name); err == nil && !o.force {
		return fmt.Errorf("%[1]s exists already; add servers to it with gateway add%[2]s or gateway import --merge%[2]s, or replace it with --force", name, withConfig(name))
	}
	if err := checkFolder(name); err != nil {
		return err // before a question
	}
	out := cmd.OutOrStdout()
	take, files, err := o.choose(cmd, name)
	if err != nil {
		return err
	}
	if err := writeNew(cmd.Context(), out, name, o.force); err != nil {
		return err
	}
	in := withConfig(name)
	imported := 0
	if take {
		opened := runOptions{file: name}
		e, err := opened.edit(cmd.Context())
		if err != nil {
			return err
		}
		defer e.close()
		e.isNew = true
		if imported, err = e.merge(cmd, files); err != nil {
			return err
		}
	}
	columns := console.Columns(out)
	fmt.Fprintln(out, "\nNext:")
	if imported == 0 {
		fmt.Fprintln(out, broken(columns, "  gateway add NAME"+in+" -- COMMAND   # or: gateway add NAME URL"+in,
			brokenCommand(columns, "  gateway add NAME", in, " -- COMMAND")+"\n  # or:\n"+brokenCommand(columns, "  gateway add NAME URL", in)))
	}
	if !take && len(files) > 0 {
		merge := brokenCommand(columns, "  gateway import --merge", in)
		fmt.Fprintln(out, broken(columns, merge+"        # the servers of your hosts", "  # the servers of your hosts:\n"+merge))
	}
	fmt.Fprintf(out, "%s\n%s\n", brokenCommand(columns, "  gateway check", in), brokenCommand(columns, "  gateway run", in))
	return nil
}

// choose finds the files of hosts, and asks whether to import them.
func (o *initOptions) choose(cmd *cobra.Command, name string) (take bool, files []hostimport.File, err error) {
	if o.leave {
		return false, nil, nil
	}
	out, in := cmd.OutOrStdout(), cmd.InOrStdin()
	files = readHostFiles(out, servedFor(cmd.Context(), name))
	switch {
	case len(files) == 0:
		return false, nil, nil
	case o.take:
		return true, files, nil
	case !console.IsTerminal(in):
		return false, files, nil
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	take, err = console.NewPrompter(in, out, console.StyleOf(out, lookupEnv)).Confirm(ctx, "Import these servers?")
	if ctx.Err() != nil {
		err = errors.New("nothing is written")
	}
	return take, files, err
}

// writeNew writes a new configuration, and the JSON Schema beside it. The error is fs.ErrExist if there is one, unless force
// is set.
func writeNew(ctx context.Context, out io.Writer, name string, force bool) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return configfile.Unwritable(name, err)
	}
	unlock, err := lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	kept, err := replaceKept(name, force)
	if err != nil {
		return err
	}
	f := output{name: name, flag: "another name", mode: 0o644, data: []byte(newConfiguration)}
	if kept == "" {
		err = f.write(force)
	}
	if err != nil {
		return err
	}
	folded(out, "%s is written.\n", name)
	if kept != "" {
		folded(out, "The file before is kept as %s.\n", kept)
	}
	at := filepath.Join(filepath.Dir(name), schemaFile)
	schema, err := hostconfig.Read(at)
	if err != nil {
		return configfile.Unreadable(at, err)
	}
	if schema.Exists && !strings.Contains(string(schema.Data), config.SchemaID) {
		return nil // the file of somebody else
	}
	if err := writeSchema(schema.Name); err != nil {
		return err
	}
	folded(out, "%s is its JSON Schema, for editors.\n", schema.Name)
	return nil
}

// replaceKept replaces a file by the new configuration, and returns the name of the backup. It returns "" if there is no
// file, or only what init has written.
func replaceKept(name string, force bool) (kept string, err error) {
	if !force {
		return "", nil
	}
	f, err := hostconfig.Read(name)
	if err != nil {
		return "", configfile.Unreadable(name, err)
	}
	if !f.Exists || string(f.Data) == newConfiguration {
		return "", nil
	}
	if err := f.Replace([]byte(newConfiguration)); err != nil {
		return "", configfile.Unwritable(name, err)
	}
	return f.Backup(), nil
}

// checkFolder returns an error if a file cannot be made in its folder, or that folder in the one above.
func checkFolder(name string) error {
	folder := filepath.Dir(name)
	for {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			break
		}
		folder = filepath.Dir(folder)
	}
	f, err := os.CreateTemp(folder, ".gateway.*.tmp")
	if err != nil {
		return configfile.Unwritable(name, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// writeSchema writes the JSON Schema, readable for everybody.
func writeSchema(name string) error {
	if err := os.WriteFile(name, config.JSONSchema(), 0o644); err != nil {
		return configfile.Unwritable(name, err)
	}
	return nil
}

// newConfiguration is the file that init writes.
const newConfiguration = schemaLine + `
#
# The configuration of the MCP gateway. Without more it serves MCP on
# http://127.0.0.1:8080/mcp for programs on this machine.
#
#   gateway add NAME -- COMMAND    adds a server; gateway add NAME URL, too
#   gateway check                  checks this file and every server
#   gateway run                    serves, and applies changes of this file
#
# Your editor shows every key if it knows the schema in the first line.

# The MCP servers behind the gateway, by name. Their tools are published as
# NAME__TOOL. ${NAME} is a variable of the environment, or of env_file.
upstreams:
  # A program that speaks MCP over its standard input and output:
  #files:
  #  command: npx
  #  args: ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]
  #
  # A remote server:
  #search:
  #  url: https://mcp.example.com/mcp
  #  headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}

# Who may call. By default, everybody on this machine and nobody else.
#listen: 127.0.0.1:8080
#auth:
#  mode: api-key      # gateway key makes a key and its entry
#  api_keys: []
`
