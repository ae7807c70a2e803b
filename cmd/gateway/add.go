package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"mcpgateway/internal/config"
	"mcpgateway/internal/configfile"
	"mcpgateway/internal/console"
	"mcpgateway/internal/endpoint"
	"mcpgateway/internal/hostimport"
	"mcpgateway/internal/origin"
)

// addOptions are the flags of `gateway add`.
type addOptions struct {
	runOptions // only the file is used
	headers    []string
	env        []string
	transport  string
	oauth      bool
	replace    bool
}

func newAdd() *cobra.Command {
	var o addOptions
	cmd := &cobra.Command{
		Use:   "add NAME -- COMMAND [ARG…]\n  gateway add NAME URL",
		Short: "Add an upstream to gateway.yaml",
		Long: "add adds an upstream to the gateway.yaml that run would use: a command that the\n" +
			"gateway starts, or the URL of a remote server. Everything else in the file stays\n" +
			"as it is, comments too. Without a file add makes ./gateway.yaml.\n\n" +
			"Values of --env and --header, and secrets in arguments and in the URL, go to the\n" +
			"env_file (gateway.env, readable for you only), and gateway.yaml refers to them.\n" +
			"You can write a reference yourself: --env 'TOKEN=${TOKEN}'. $${ stands for the\n" +
			"characters ${.",
		Example: "  gateway add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes\n" +
			"  gateway add github --env TOKEN=ghp_… -- github-mcp-server stdio\n" +
			"  gateway add search https://mcp.example.com/mcp --header 'X-Key: …'\n" +
			"  gateway add tickets https://tickets.example.com/mcp --oauth",
		Args: func(cmd *cobra.Command, args []string) error { return o.check(args, cmd.ArgsLenAtDash()) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		args, better := cmd.Flags().Args(), unknownFlag(cmd, err)
		_, unknown := errors.AsType[*pflag.NotExistError](err)
		switch {
		case cmd.ArgsLenAtDash() >= 0:
		case len(args) > 1 && !isURL.MatchString(args[1]): // the flag is one of the command
			return usageError{fmt.Errorf("write -- before the command: gateway add %s -- %s …", args[0], strings.Join(args[1:], " "))}
		case len(args) == 1 && unknown && better.Error() == err.Error(): // it may be one of a command without a name
			return usageError{fmt.Errorf("%w; write a name and -- before a command: gateway add NAME -- %s …", err, args[0])}
		}
		return better
	})
	o.editFlag(cmd)
	cmd.Flags().StringArrayVarP(&o.headers, "header", "H", nil, "`HEADER` for the URL, as 'NAME: VALUE'; may be repeated")
	cmd.Flags().StringArrayVarP(&o.env, "env", "e", nil, "variable of the command, as `NAME=VALUE`; repeatable")
	cmd.Flags().StringVar(&o.transport, "transport", "", "`TRANSPORT` of the URL: http or sse; both by default")
	cmd.Flags().BoolVar(&o.oauth, "oauth", false, "each user grants access in a browser (auth: {kind: user})")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "replace the server of this name; its other keys, such as tools, stay")
	return cmd
}

var (
	isURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// isHost matches the beginning of a URL without its scheme: a name with a dot, or one with a port, and a path.
	isHost = regexp.MustCompile(`^([A-Za-z0-9-]+\.)+[A-Za-z]{2,}(:[0-9]+)?/|^[A-Za-z0-9.-]+:[0-9]+(/|$)`)
	// isAssignment matches a variable before a command, as a shell takes it.
	isAssignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	brokenURL    = regexp.MustCompile(`^https?:`)
)

// check checks the arguments and their combination with flags. dash is the number of arguments before --, or -1.
func (o *addOptions) check(args []string, dash int) error {
	remote := dash < 0 && len(args) == 2
	switch {
	case len(args) == 0:
		return usageError{errors.New("add needs a name, and a command or a URL: gateway add NAME -- COMMAND, or gateway add NAME URL")}
	case config.NameOf(args[0]) != args[0]:
		return usageError{fmt.Errorf("%s cannot be a name: use at most 32 of a-z 0-9 -, beginning with a letter, such as %s", configfile.Quote(args[0]), nameLike(args[0]))}
	case len(args) > 1 && isAssignment.MatchString(args[1]):
		env, command := "", args[1:]
		for len(command) > 0 && isAssignment.MatchString(command[0]) { // the value may be a secret
			name, _, _ := strings.Cut(command[0], "=")
			env, command = env+" --env "+name+"=…", command[1:]
		}
		return usageError{fmt.Errorf("variables of the command go to --env: gateway add %s%s -- %s", args[0], env, cmp.Or(strings.Join(command, " "), "COMMAND"))}
	case len(args) == 1:
		return usageError{fmt.Errorf("add %s needs a command or a URL: gateway add %s -- COMMAND, or gateway add %s URL", args[0], args[0], args[0])}
	case remote && isHost.MatchString(args[1]):
		return usageError{fmt.Errorf("%s has no scheme: gateway add %s %s://%s, or for a command: gateway add %s -- %s", args[1], args[0], usualScheme(args[1]), args[1], args[0], args[1])}
	case remote && !isURL.MatchString(args[1]) && brokenURL.MatchString(args[1]):
		return usageError{fmt.Errorf("%s is not a URL: write it as https://HOST/PATH", args[1])}
	case o.isCutShort(args, dash):
		return usageError{fmt.Errorf("a value of --header or --env has ended at a space: put it in quotation marks, as in%s", o.valueFlags())} // the rest may be a secret
	case dash > 1 && isURL.MatchString(args[1]):
		return usageError{fmt.Errorf("an upstream has a URL or a command, not both: gateway add %s %s, or gateway add %s -- %s", args[0], args[1], args[0], strings.Join(args[2:], " "))}
	case dash > 1 && dash < len(args) && !strings.HasPrefix(args[dash], "-"):
		return usageError{fmt.Errorf("the name before -- is one word: gateway add %s -- %s", config.NameOf(strings.Join(args[:dash], " ")), strings.Join(args[dash:], " "))}
	case dash < 0 && !(remote && isURL.MatchString(args[1])), dash > 1:
		return usageError{fmt.Errorf("write -- before the command, or give one URL: gateway add %s%s -- %s", args[0], o.valueFlags(), strings.Join(args[1:], " "))}
	case dash == 0:
		return usageError{errors.New("the name comes before --: gateway add NAME -- COMMAND")}
	case dash == 1 && isURL.MatchString(args[1]):
		return usageError{fmt.Errorf("a URL needs no --: gateway add %s %s", args[0], args[1])}
	case dash == 1 && lacksPackage(args[1:]) != "":
		return usageError{fmt.Errorf("%s needs the package of the server: gateway add %s%s -- %s %s", args[1], args[0], o.valueFlags(), args[1], lacksPackage(args[1:]))}
	case remote && len(o.env) > 0:
		return usageError{errors.New("--env is for commands; send a value to a URL with --header")}
	case !remote && (len(o.headers) > 0 || o.transport != "" || o.oauth):
		return usageError{errors.New("--header, --transport and --oauth are for URLs; give a value to a command with --env")}
	}
	switch o.transport {
	case "", "http", "sse", "streamable-http":
		return nil
	}
	return usageError{fmt.Errorf("--transport %s: must be http or sse", o.transport)}
}

// lacksPackage returns the missing arguments of a command that runs a package and names none, "" for other commands. npx would
// start a shell, which waits for input. A flag with = may name the package, as --package=PACKAGE does.
func lacksPackage(command []string) string {
	if slices.ContainsFunc(command[1:], func(arg string) bool { return !strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") }) {
		return ""
	}
	program := filepath.Base(command[0])
	return map[string]string{"npx": "-y PACKAGE", "uvx": "PACKAGE", "bunx": "PACKAGE"}[strings.TrimSuffix(program, filepath.Ext(program))]
}

// isCutShort reports whether a value of --header or --env has ended at a space, since it had no quotation marks: more words
// stand beside the URL, or beside the name before a command.
func (o *addOptions) isCutShort(args []string, dash int) bool {
	if len(o.headers)+len(o.env) == 0 {
		return false
	}
	return dash > 1 && !isURL.MatchString(args[1]) || dash < 0 && len(args) > 2 && slices.ContainsFunc(args[1:], isURL.MatchString)
}

// valueFlags are --header and --env as the user has given them, without the values, with a space before each.
func (o *addOptions) valueFlags() (text string) {
	for _, h := range o.headers {
		name, _, _ := strings.Cut(h, ":")
		text += " --header '" + name + ": …'"
	}
	for _, e := range o.env {
		name, _, _ := strings.Cut(e, "=")
		text += " --env '" + name + "=…'"
	}
	return text
}

// nameLike is a name for a text that is none.
func nameLike(text string) string {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return "files" // too little would be left of the text
	}
	return config.NameOf(text)
}

// usualScheme is the scheme with which a host, without its own scheme, most likely serves: TLS is unusual on loopback.
func usualScheme(at string) string {
	u, err := url.Parse("http://" + at)
	if err == nil && origin.IsLoopback(u.Hostname()) {
		return "http"
	}
	return "https"
}

// urlOf is the URL of the MCP server that a host without a scheme most likely has.
func urlOf(at string) string {
	if !strings.Contains(at, "/") {
		at += endpoint.Path
	}
	return usualScheme(at) + "://" + at
}

func (o *addOptions) run(cmd *cobra.Command, args []string) error {
	entry, err := o.entry(args)
	if err != nil {
		return err
	}
	if command, isCommand := entry["command"].(string); isCommand {
		if flag := ownFlag(args[2:]); flag != "" {
			folded(cmd.ErrOrStderr(), "note: %s after -- is an argument of %s; flags of add come before --\n", flag, console.Line(command))
		}
	}
	for _, text := range o.env { // a command may want an empty variable
		if variable, value, _ := strings.Cut(text, "="); strings.TrimSpace(value) == "" {
			folded(cmd.ErrOrStderr(), "note: the value of %s is empty; if a variable is not set in your shell, set it, and add %s again with --replace\n", console.Line(variable), args[0])
		}
	}
	out := cmd.OutOrStdout()
	isNew := o.configPath() == ""
	if isNew {
		if hint := o.runsElsewhere(nil); hint != "" {
			folded(cmd.ErrOrStderr(), "note: %s: add makes one%s to add to that one\n", noFile(), hint)
		}
		err := writeNew(cmd.Context(), out, "gateway.yaml", false)
		if isNew = !errors.Is(err, fs.ErrExist); isNew && err != nil { // else another command has made it in the meantime
			return err
		}
	}
	e, err := o.edit(cmd.Context())
	if err != nil {
		return err
	}
	defer e.close()
	e.isNew = isNew
	name, before := args[0], string(e.Bytes())
	at := e.keyOf(name)
	if at != "" {
		if !o.replace {
			return fmt.Errorf("there is an upstream %s in %s already; choose another name, or replace it with --replace", name, e.name)
		}
		if err := e.forget(at); err != nil {
			return err
		}
	}
	if at, remote := entry["url"].(string); remote { // save does not know the addresses of flags
		if gateway, own := servedFor(cmd.Context(), e.name)(at); own {
			return fmt.Errorf("%s cannot be added: its URL leads to the gateway that runs with this configuration: %s", name, gateway)
		}
	}
	im, err := e.imported(name, entry)
	if err != nil {
		return err
	}
	for _, w := range im.Warnings {
		text := strings.TrimPrefix(w.Path, "mcpServers.") + " " + w.Msg // the position means nothing to the user
		if strings.Contains(w.Msg, "left out") {
			return errors.New(text)
		}
		folded(cmd.ErrOrStderr(), "%s\n", text)
	}
	if o.oauth {
		im.Servers[0].Value.Content = append(im.Servers[0].Value.Content, word("auth"),
			&yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{word("kind"), word("user")}})
	}
	var change *replacement
	if at != "" {
		im.Servers[0].Name = at
		if im.Servers[0].Value, change, err = e.replace(at, im.Servers[0].Value); err != nil {
			return err
		}
	}
	if err := e.add(im); err != nil {
		return err
	}
	if err := e.save(cmd.ErrOrStderr(), name); err != nil {
		return err
	}
	if change == nil {
		folded(out, "%s is added to %s.\n", name, e.name)
	} else {
		folded(out, "%s is replaced in %s.\n", name, e.name)
		change.print(out)
		e.tellUnused(out, before)
	}
	for i := range im.Variables {
		im.Variables[i].Uses = nil // they are on the command line
	}
	e.tell(out, im.Variables)
	next, in := "check ", ""
	if o.oauth {
		next = "login "
	}
	if o.file != "" {
		in = " -c " + shellWord(o.file)
	}
	fmt.Fprintln(out, brokenCommand(console.Columns(out), "Next: gateway "+next+name, in))
	if o.oauth && e.before != nil {
		folded(out, "%s", callersGrant(e.before))
	}
	return nil
}

// ownFlag returns the first argument of a command that looks like a flag which is meant for add, "" if there is none. Many
// commands have -e and -c of their own, so only the name of a configuration makes -c one.
func ownFlag(args []string) string {
	for i, arg := range args {
		switch flag, value, _ := strings.Cut(arg, "="); flag {
		case "--env", "--header", "--oauth", "--replace":
			return flag
		case "-c", "--config":
			if value == "" && i+1 < len(args) {
				value = args[i+1]
			}
			if ext := strings.ToLower(filepath.Ext(value)); ext == ".yaml" || ext == ".yml" {
				return flag
			}
		}
	}
	return ""
}

func word(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// entry is the server in the form of a host.
func (o *addOptions) entry(args []string) (map[string]any, error) {
	pairs := func(flag, separator, want string, list []string) (map[string]string, error) {
		out := make(map[string]string)
		for _, text := range list {
			name, value, ok := strings.Cut(text, strings.TrimSpace(separator))
			if name = strings.TrimSpace(name); !ok || name == "" {
				return nil, usageError{fmt.Errorf("--%s must be %s", flag, want)} // the text may be a secret
			}
			value = strings.TrimSpace(value)
			if err := checkShellVariable(flag, name, separator, value); err != nil {
				return nil, err
			}
			out[name] = value
		}
		return out, nil
	}
	headers, err := pairs("header", ": ", "'NAME: VALUE'", o.headers)
	if err != nil {
		return nil, err
	}
	for _, text := range o.headers {
		name, value, _ := strings.Cut(text, ":")
		if err := checkHeader(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return nil, err
		}
	}
	env, err := pairs("env", "=", "NAME=VALUE, or 'NAME=${NAME}' for the value that the environment or the env_file has", o.env)
	if err != nil {
		return nil, err
	}
	entry := make(map[string]any)
	if isURL.MatchString(args[1]) {
		entry["url"] = args[1]
	} else {
		entry["command"], entry["args"] = args[1], args[2:]
	}
	if len(headers) > 0 {
		entry["headers"] = headers
	}
	if len(env) > 0 {
		entry["env"] = env
	}
	if o.transport == "http" {
		o.transport = string(config.TransportStreamable)
	}
	if o.transport != "" {
		entry["transport"] = o.transport
	}
	return entry, nil
}

// shellVariable matches a reference to a variable in the form of a shell, which nothing but a shell replaces.
var shellVariable = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

// checkShellVariable refuses a value that is a variable which the shell left alone, as in single quotes: its name would be
// stored in place of the secret. Text with more than that may be a password.
func checkShellVariable(flag, name, separator, value string) error {
	scheme := config.AuthScheme(value)
	variable := value[len(scheme):]
	if !shellVariable.MatchString(variable) {
		return nil
	}
	return usageError{fmt.Errorf("--%s: %s stands for itself in the value of %s; write '%s%s%s${%s}' for a reference to the variable, or double quotes for the value that it has in your shell",
		flag, variable, name, name, separator, scheme, variable[1:])}
}

// checkHeader refuses a header without a value: a shell replaces a variable that is not set by nothing.
func checkHeader(name, value string) error {
	is := ""
	switch {
	case value == "":
		is = "is empty"
	case config.AuthScheme(value+" ") == value+" " && (strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization")):
		is, value = "has nothing after "+value, value+" "
	default:
		return nil
	}
	return usageError{fmt.Errorf("--header: the value of %s %s; if a variable is not set in your shell, set it, or write single quotes to keep the reference: '%s: %s${NAME}'", name, is, name, value)}
}

// imported moves the secrets of an entry into variables, as import does.
func (e *edited) imported(name string, entry map[string]any) (*hostimport.Result, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: entry}})
	if err != nil {
		return nil, err
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	o := hostimport.Options{Taken: e.taken, Gateways: true, Escapes: true} // the user means it; save finds a loop
	im, err := o.Import(hostimport.File{Name: "add.json", Data: data, Folder: folder})
	var errs config.Errors
	if errors.As(err, &errs) { // the positions mean nothing to the user
		why := errs[len(errs)-1]
		if fault, ok := strings.CutPrefix(why.Msg, "is left out: "); ok {
			return nil, fmt.Errorf("%s cannot be added: %s", name, fault)
		}
		return nil, fmt.Errorf("%s cannot be added: it %s", name, why.Msg)
	}
	return im, err
}

func programName() string {
	path, _ := os.Executable() // without it only the usual name is known
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}

// keyOf is the key of an upstream in the file, "" if there is none.
func (e *edited) keyOf(name string) string {
	if e.Has(e.section, name) {
		return name
	}
	if e.before != nil {
		for _, u := range e.before.Upstreams {
			if u.Name == name {
				return u.Key
			}
		}
	}
	return ""
}
