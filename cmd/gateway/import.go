package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
)

// importOptions are the flags of `gateway import`.
type importOptions struct {
	out   string
	force bool
}

func newImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Make a gateway.yaml of hosts' configurations",
		Long: "import reads the configurations of hosts (Claude Desktop, Claude Code, Cursor, VS Code,\n" +
			"Windsurf, Zed, Gemini CLI, Codex, opencode, Continue, any mcp.json) and prints a gateway.yaml\n" +
			"that has all their servers. Every literal that may be secret becomes ${NAME}; which\n" +
			"variables to set, and what was changed or left out, is told on standard error.",
		Example: "  gateway import ~/.claude.json .vscode/mcp.json -o gateway.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("import needs the file of a host, such as ~/.claude.json or .vscode/mcp.json")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().StringVarP(&o.out, "output", "o", "", "`FILE` to write, in place of standard output")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace the file if it is there")
	return cmd
}

func (o *importOptions) run(cmd *cobra.Command, args []string) error {
	var files []config.HostFile
	for _, name := range args {
		f, err := hostFile(name)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	im, err := config.Import(files...)
	if err != nil {
		return err
	}
	if err := o.write(cmd.OutOrStdout(), im.YAML); err != nil {
		return err
	}
	o.tell(cmd.ErrOrStderr(), im)
	return nil
}

// hostFile reads a file, and finds out which folder it is about.
func hostFile(name string) (config.HostFile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return config.HostFile{}, config.Unreadable(name, err)
	}
	full, err := filepath.Abs(name)
	return config.HostFile{Name: name, Data: data, Folder: filepath.Dir(full)}, err
}

// write replaces a file only if that was asked for.
func (o *importOptions) write(stdout io.Writer, data []byte) error {
	if o.out == "" {
		_, err := stdout.Write(data)
		return err
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(o.out, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; choose another with -o, or replace it with --force", o.out)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// tell says what to know and what to do next.
func (o *importOptions) tell(stderr io.Writer, im *config.Imported) {
	for _, r := range im.Remarks {
		fmt.Fprintln(stderr, r)
	}
	fmt.Fprintf(stderr, "%s imported.\n", console.Count(im.Upstreams, "upstream"))
	file := o.out
	if file == "" {
		file = "gateway.yaml"
	}
	if len(im.Variables) > 0 {
		fmt.Fprintf(stderr, "\nSet in the environment before you go on:\n\n")
		for _, v := range im.Variables {
			fmt.Fprintf(stderr, "  %s%s\n", v.Name, whence(v))
		}
		fmt.Fprintln(stderr)
	}
	fmt.Fprintf(stderr, "Then: gateway check -c %s\n", file)
}

// whence says what the value of a variable is, and where it stands now.
func whence(v config.Variable) string {
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
	if about == "" {
		return ""
	}
	return "   " + strings.ReplaceAll(about, "\n", " ")
}
