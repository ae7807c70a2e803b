package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mcpgateway/internal/call"
	"mcpgateway/internal/config"
	"mcpgateway/internal/console"
	"mcpgateway/internal/gateway"
	"mcpgateway/internal/inspect"
	"mcpgateway/internal/requestid"
	"mcpgateway/internal/results"
	"mcpgateway/internal/wire"
)

// callOptions are the flags of `gateway call`.
type callOptions struct {
	visitOptions
	args    []string
	json    bool
	timeout time.Duration
	unknown []unknownArgument

	unlisted bool   // the server at --url does not list the tool
	near     string // a question that names the tools that it may be
	ofKept   bool   // the tool is read_result of the gateway in this command
}

// unknownArgument is an argument that the schema of the tool does not have.
type unknownArgument struct {
	name string
	near string // a question that names an argument that it has, "" for none
}

func newCall() *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use:   "call NAME [JSON]",
		Short: "Call one tool",
		Long: "call calls a tool by its public name. It starts the configured upstream, or calls\n" +
			"the server at --url. The arguments are a JSON object (- reads it from standard\n" +
			"input), or --arg for each. Text in the result is printed as it is, pictures and\n" +
			"the like by kind and size. On a terminal you see progress, and answer forms and\n" +
			"open addresses that the server asks for; elsewhere the server learns that nobody\n" +
			"answers. Requests for sampling are refused.\n\n" +
			"The exit status is 1 if the tool reports an error or cannot be called.",
		Example: "  gateway call files__read_file '{\"path\": \"/data/a.txt\"}'\n" +
			"  gateway call search__find --arg query=go --arg limit=5 --profile coding\n" +
			"  gateway call find --url https://mcp.example.com/mcp --json < /dev/null",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 && !slices.ContainsFunc(args[1:], func(a string) bool { return !plainArgument.MatchString(a) }) {
				return errNotJSON(args[1:])
			}
			if len(o.args) > 0 && len(args) > 1 {
				if at := slices.IndexFunc(args[1:], isWord); at >= 0 {
					return usageError{fmt.Errorf("%q belongs to no argument; put a value with spaces in quotes: --arg 'NAME=two words'", args[1+at])}
				}
			}
			if len(args) == 0 || len(args) > 2 {
				return usageError{errors.New("call needs the name of a tool and at most one JSON object of arguments; gateway list tools shows the names")}
			}
			for _, a := range o.args { // before the server starts
				if strings.Index(a, "=") < 1 {
					return usageError{fmt.Errorf("--arg %q: it must be NAME=VALUE", a)}
				}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return o.toolNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.flags(cmd)
	cmd.Flags().StringArrayVar(&o.args, "arg", nil, "argument `NAME=VALUE`; JSON unless the tool expects a string; may be repeated")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long everything may take, as `DURATION`; 0 means the limits of the upstream")
	return cmd
}

func (o *callOptions) run(cmd *cobra.Command, args []string) error {
	cfg, source, who, err := o.read(cmd)
	if err != nil {
		return err
	}
	given, err := o.object(cmd.InOrStdin(), args[1:])
	if err != nil {
		return err
	}
	o.warnWithoutCredentials(cmd, cfg)
	if o.url == "" {
		keepUpstreams(cfg, who, args[0])
		keepWhole(cfg)
	}
	raw, err := o.call(cmd, cfg, source, who, args[0], given)
	if err != nil {
		return o.failure(err)
	}
	return o.print(cmd, raw)
}

// keepWhole leaves long results whole: what the gateway of this command keeps of them ends with the command, and a shell
// reads all of it. The profiles still have the tool that reads them, which finds what replicas keep in a store.
func keepWhole(cfg *config.Config) {
	for i := range cfg.Profiles {
		if p := &cfg.Profiles[i]; p.MaxResult > 0 {
			p.MaxResult = longerThanAny
		}
	}
}

// longerThanAny is the largest max_result that a configuration may have.
const longerThanAny = 1 << 30

// plainArgument matches an argument that a user has written without --arg.
var plainArgument = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*=`)

// isWord reports whether an argument of the command is neither meant as JSON nor one that a user has written without --arg.
func isWord(a string) bool {
	return a != "-" && !strings.HasPrefix(strings.TrimSpace(a), "{") && !strings.HasPrefix(a, "[") && !plainArgument.MatchString(a)
}

// errNotJSON is about arguments that a user has written without --arg.
func errNotJSON(args []string) error {
	var flags []string
	for _, a := range args {
		flags = append(flags, "--arg "+shellWord(a))
	}
	each := ""
	if len(args) == 1 {
		each = " for each one"
	}
	return usageError{fmt.Errorf("the arguments are not JSON; write %s%s, or one JSON object", strings.Join(flags, " "), each)}
}

// errNotObject is about arguments that are no JSON object. not says what they are, "" for nothing about that.
func errNotObject(not string) error {
	return usageError{fmt.Errorf("the arguments must be a JSON object, such as '{\"path\": \"a.txt\"}'%s; for single arguments use --arg NAME=VALUE", not)}
}

// object parses the arguments given as JSON; without any it is an empty object.
func (o *callOptions) object(stdin io.Reader, args []string) (wire.Raw, error) {
	text := "{}"
	if len(args) > 0 {
		if text = args[0]; isWord(text) {
			return nil, errNotObject(fmt.Sprintf(", not %q", text))
		}
	}
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxArguments+1))
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		if len(data) > maxArguments {
			return nil, fmt.Errorf("the arguments are larger than %s", console.Bytes(maxArguments))
		}
		text = string(data)
	}
	raw := wire.Raw(strings.TrimSpace(text))
	if err := wire.Check(raw, wire.Limits{}, wire.Strict); err != nil {
		if plainArgument.MatchString(text) {
			return nil, errNotJSON([]string{text})
		}
		return nil, usageError{fmt.Errorf("the arguments are not valid JSON: %w", err)}
	}
	if wire.ValueOf(raw).Kind() != '{' {
		return nil, errNotObject("")
	}
	return raw, nil
}

// maxArguments bounds the arguments from standard input.
const maxArguments = 16 << 20

// call makes the call.
func (o *callOptions) call(cmd *cobra.Command, cfg *config.Config, source string, who *call.Principal, name string, given wire.Raw) (wire.Raw, error) {
	progress := newProgress(cmd)
	screen := progress.screen
	back := &shell{screen: screen}
	if console.IsTerminal(cmd.InOrStdin()) {
		tty, end, err := questions(cmd.ErrOrStderr())
		if err == nil {
			defer end()
			back.prompt = console.NewPrompter(cmd.InOrStdin(), tty, console.StyleOf(tty, lookupEnv))
		}
	}
	var result wire.Raw
	changed := make(chan struct{}, 1)
	watch := func(u inspect.Upstream) {
		progress.watch(u)
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	err := visit(cmd, cfg, source, o.timeout, watch, func(ctx context.Context, v *gateway.InProcess) error {
		progress.begin(v.Upstreams())
		defer screen.Status("")
		if o.url != "" || len(o.args) > 0 {
			if err := v.WaitStarted(ctx); err != nil {
				return o.ended(ctx, v)
			}
		}
		ask := v.Call
		if o.url != "" {
			var listed bool
			if name, listed = publicName(v, who, name); !listed && v.Upstreams()[0].Revision != "" {
				o.unlisted, o.near = true, didYouMeanOne(v.Table(who.Profile).View(who, nil).SimilarNames(call.Tool, name))
				// The server refuses the call itself, so that its operator finds it in its log.
				ask = func(ctx context.Context, c *call.Call) (call.Result, error) {
					return v.CallUpstream(ctx, urlUpstream, c)
				}
			}
		}
		arguments, err := o.withArgs(v, who, name, given)
		if err != nil {
			return err
		}
		params := wire.SetMember(wire.SetMember(wire.Raw(`{}`), "name", wire.String(name)), "arguments", arguments)
		params = wire.SetMember(params, "_meta", wire.Raw(`{"progressToken":1}`))
		c := &call.Call{
			ID: requestid.New(), Method: wire.MethodToolsCall, Params: params, Principal: who,
			Client: shellClient(back.capabilities()), LogLevel: wire.LevelNone, Back: back,
		}
		if o.as != "" {
			c.By = systemUser() + " (gateway call)"
		}
		for range maxVisits {
			var res call.Result
			if res, err = ask(ctx, c); err == nil {
				result = res.Raw
				return nil
			}
			if ctx.Err() != nil {
				return o.ended(ctx, v)
			}
			if o.url != "" && back.prompt == nil && c.Client.Capabilities == nil && withholdsAddress(err) {
				c.Client = shellClient(wire.Raw(`{"elicitation":{"url":{}}}`))
				c.Client.Key += " with URLs" // another client: its capabilities are known by the key
				continue
			}
			if !back.opened(ctx, err) {
				return o.advised(ctx, err, v, who, name, changed)
			}
		}
		return err
	})
	return result, err
}

// systemUser is the name of the user who runs the command.
func systemUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// questions is the writer for questions: standard error, or the terminal if standard error is
// redirected.
func questions(stderr io.Writer) (tty io.Writer, end func(), err error) {
	if console.IsTerminal(stderr) {
		return stderr, func() {}, nil
	}
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// maxVisits bounds how often a tool may ask the user to open addresses.
const maxVisits = 10

// publicName is the public name of a tool of the server at --url, whose native name may be invalid as a
// public one, and whether the server lists the tool.
func publicName(v *gateway.InProcess, who *call.Principal, native string) (name string, listed bool) {
	for _, e := range v.Table(who.Profile).View(who, nil).Usable(call.Tool) {
		if e.Native == native {
			return e.Public, true
		}
	}
	return native, false
}

// withArgs adds the values of --arg to the arguments.
func (o *callOptions) withArgs(v *gateway.InProcess, who *call.Principal, name string, given wire.Raw) (wire.Raw, error) {
	var schema wire.Value
	if t, ok := v.Table(who.Profile).View(who, nil).Resolve(call.Tool, name); ok && t.Entry != nil {
		o.ofKept = name == results.ReadTool && t.Part.Own()
		schema = wire.ValueOf(t.Entry.Raw).Get("inputSchema").Get("properties")
	}
	for _, a := range o.args {
		key, text, _ := strings.Cut(a, "=")
		given = wire.SetMember(given, key, argument(schema.Get(key), text))
	}
	o.noteUnknown(schema, given)
	return given, nil
}

// noteUnknown remembers the arguments that are not among the properties of the schema. The tool may
// take them all the same, so they are named only if the call fails.
func (o *callOptions) noteUnknown(properties wire.Value, given wire.Raw) {
	var known []string
	for m := range properties.Members() {
		known = append(known, m.Key.Str())
	}
	for m := range wire.ValueOf(given).Members() {
		if len(known) > 0 && !slices.Contains(known, m.Key.Str()) {
			o.unknown = append(o.unknown, unknownArgument{m.Key.Str(), didYouMean(m.Key.Str(), known)})
		}
	}
}

// unknownIn says which arguments the tool does not have, except for those that its own error names as such.
func (o *callOptions) unknownIn(text string) (out string) {
	for _, a := range o.unknown {
		if quoted := strconv.Quote(a.name); !strings.Contains(text, "additional properties") || !strings.Contains(text, quoted) {
			out += "; its schema has no argument " + quoted
		}
		out += a.near
	}
	return console.Line(out)
}

// argument is a value from the shell: a string if the schema says so, else JSON if it is valid, else a
// string.
func argument(schema wire.Value, text string) wire.Raw {
	raw := wire.Raw(strings.TrimSpace(text))
	if schema.Get("type").IsString("string") || wire.Check(raw, wire.Limits{}, wire.Strict) != nil {
		return wire.String(text)
	}
	return raw
}

// print prints a result, and fails if the tool reports an error.
func (o *callOptions) print(cmd *cobra.Command, result wire.Raw) error {
	out := cmd.OutOrStdout()
	failed := wire.ValueOf(result).Get("isError").Bool()
	switch {
	case o.json:
		if _, err := fmt.Fprintf(out, "%s\n", result); err != nil {
			return err
		}
	case failed:
		text := cmp.Or(console.Clean(console.ResultText(result)), "it does not say why")
		text += o.unknownIn(text)
		if o.ofKept {
			text += " To read what a running gateway keeps, give its --url URL."
		}
		if o.unlisted {
			text += o.near + o.namesHint()
		}
		return fmt.Errorf("the tool failed: %s", text)
	default:
		return console.Result(out, console.StyleOf(out, lookupEnv), console.IsTerminal(out), result)
	}
	if failed {
		return errReported
	}
	return nil
}

// shellClient is the client of a call from the shell.
func shellClient(capabilities wire.Raw) *call.Client {
	return &call.Client{
		Key: "shell", Revision: wire.Rev20251125, Capabilities: capabilities,
		Info: wire.SetMember(wire.Raw(`{"name":"gateway-call"}`), "version", wire.String(version())),
	}
}

// silent is a back channel without a person.
type silent struct{}

func (silent) Notify(string, wire.Raw) {}

func (silent) Ask(context.Context, string, wire.Raw) (wire.Raw, error) {
	return nil, wire.Errorf(wire.CodeMethodNotFound, "nobody answers here")
}

// shell is the back channel of a call from the shell: progress and questions go to the terminal.
type shell struct {
	screen *console.Screen
	prompt *console.Prompter // nil without a terminal

	asking sync.Mutex // one question at a time
}

// errNoModel is the answer to a request for sampling, with the code for a refusal (2025-11-25,
// client/sampling, "Error Handling").
var errNoModel = wire.Errorf(-1, "gateway call has no model and cannot answer a sampling request")

// capabilities are those of a terminal. Sampling is declared so that the server gets errNoModel, which
// says what is missing: sessions that several clients share declare it anyway.
func (s *shell) capabilities() wire.Raw {
	if s.prompt == nil {
		return nil
	}
	return wire.Raw(`{"elicitation":{"form":{},"url":{}},"sampling":{}}`)
}

// Notify implements call.BackChannel.
func (s *shell) Notify(method string, params wire.Raw) {
	if method != wire.NoteProgress {
		return
	}
	p := wire.ValueOf(params)
	text := string(p.Get("progress").Raw())
	if total := p.Get("total"); total.Exists() {
		text += " of " + string(total.Raw())
		part, err1 := strconv.ParseFloat(string(p.Get("progress").Raw()), 64)
		all, err2 := strconv.ParseFloat(string(total.Raw()), 64)
		if err1 == nil && err2 == nil && all > 0 {
			text = fmt.Sprintf("%3.0f%%", 100*part/all)
		}
	}
	s.screen.Status(strings.TrimSpace(text + "  " + p.Get("message").Str()))
}

// Ask implements call.BackChannel.
func (s *shell) Ask(ctx context.Context, method string, params wire.Raw) (wire.Raw, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	s.screen.Hold()
	defer s.screen.Release()
	if s.prompt != nil {
		switch wire.MethodOf(method).Shape {
		case wire.ShapeElicitation:
			return s.prompt.Elicit(ctx, params)
		case wire.ShapeSampling:
			return nil, errNoModel
		}
	}
	return silent{}.Ask(ctx, method, params)
}

// opened asks the person to open the addresses in an error, and reports whether to call again.
func (s *shell) opened(ctx context.Context, err error) bool {
	var rpc *wire.Error
	if s.prompt == nil || !errors.As(err, &rpc) || rpc.Code != wire.CodeURLElicitation {
		return false
	}
	again := false
	for e := range wire.ValueOf(rpc.Data).Get("elicitations").Elements() {
		answer, err := s.Ask(ctx, wire.MethodElicit, wire.SetMember(e.Raw(), "mode", wire.String("url")))
		if err != nil || !wire.ValueOf(answer).Get("action").IsString("accept") {
			return false
		}
		again = true
	}
	return again
}
